"""What schemathesis has to know to talk to a server of ours: values with forms of their own, a key that stays good.

Some of what it tries ends keys or shuts people out, the one it uses among them; so every second it gets a new one.
"""

import os
import re
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.service.access.authenticator import OWNER, Authenticator
from clew.store import open_store
from clew.store.access.credentials import end_credential, list_credentials
from clew.store.access.grants import add_grant
from clew.store.access.principals import Principal, set_principal

# What our parser says of arguments that do not fit; words of an operation itself begin otherwise.
NOT_AS_DESCRIBED = re.compile(
    r"^\w+: (Expected|Object|Invalid|the body|.* (has no parameter|has to be|contains a NUL))"
)

schemathesis.openapi.format("session", st.sampled_from(os.environ["CLEW_TEST_SESSIONS"].split()))
schemathesis.openapi.format("moment", st.sampled_from(["today", "3d", "2026-10", "last week", "tuesday"]))


@schemathesis.check
def fits_what_is_described(context: Any, response: Any, case: Any) -> None:
    """What fits the description is refused for what it means, never for its form. (Drafts have forms of their own.)"""
    is_meant = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
    if is_meant and response.status_code == 400 and case.operation.definition.raw["operationId"] != "append":
        detail = response.json()["detail"]
        assert not NOT_AS_DESCRIBED.match(detail), f"the description allows what was refused: {detail}"


@schemathesis.auth(refresh_interval=1)
class Key:
    def __init__(self) -> None:
        self._door = Authenticator(open_store(os.environ["CLEW_TEST_STORE"]))

    def get(self, case: Any, context: Any) -> str:
        set_principal(self._door.store, Principal(name=OWNER))
        add_grant(self._door.store, owner_of_everything(OWNER), given_by="test")
        owner = Context(
            store=self._door.store, unrestricted=self._door.store, principal=OWNER, grants=(owner_of_everything(OWNER),)
        )
        # The tests before it held on to keys of this name, too, and a principal holds only so many.
        for held in list_credentials(owner.store, OWNER):
            if held.label == "schemathesis":
                end_credential(owner.store, held.id, owner.store.now())
        return str(call(owner, "key_create", {"label": "schemathesis"}).key)

    def set(self, case: Any, data: str, context: Any) -> None:
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}
