"""Files of workspaces over HTTP as plain bytes: one file, or a folder as a tar archive, sent while they are read."""

import re
from functools import partial
from typing import Any

from starlette.types import Receive, Send

from clew.model.errors import InvalidInput
from clew.server.http.arguments import pairs
from clew.server.http.exchange import Answer, Exchange
from clew.server.http.object_routes import begun, headers_of
from clew.server.http.operations import Operations
from clew.server.login.identity import Credential
from clew.service.kernel.call import call
from clew.service.sessions.objects import OpenedObject
from clew.service.workspaces.opening import OpenedTar

RAW, TAR = "/v1/sessions/{session}/workspace/raw", "/v1/sessions/{session}/workspace/tar"
PARAMETERS = ("path", "at")


class WorkspaceRoutes:
    """The two routes."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        for method in ("GET", "HEAD"):
            operations.others.add(method, RAW, partial(self._download, RAW, "workspace_open"))
            operations.others.add(method, TAR, partial(self._download, TAR, "workspace_tar"))

    async def _download(
        self, route: str, operation: str, exchange: Exchange, values: list[str], receive: Receive, send: Send
    ) -> None:
        exchange.route = route
        credential = self._operations.credential(exchange)
        begin = partial(self._open, operation, exchange, credential, *values)
        answer = await self._operations.in_turn(credential, begin, receive)
        await exchange.answer(send, answer)
        if answer.rest is not None:
            await self._operations.send_rest(exchange, credential, answer.rest, receive, send)

    def _open(self, operation: str, exchange: Exchange, credential: Credential, session: str) -> Answer:
        context = self._operations.admit(exchange, credential)
        opened: OpenedObject | OpenedTar = call(context, operation, {"session": session, **_parameters(exchange)})
        if isinstance(opened, OpenedTar):
            headers = [*headers_of(opened.name), (b"x-clew-seq", b"%d" % opened.seq)]
            return begun(200, headers, opened.pieces)
        headers = [*headers_of(opened.info.name), (b"x-clew-seq", b"%d" % opened.info.seq)]
        if opened.is_exact:
            headers.append((b"content-length", b"%d" % opened.info.size))
        return begun(200, headers, opened.pieces)


def _parameters(exchange: Exchange) -> dict[str, Any]:
    given: dict[str, Any] = dict(pairs(exchange.scope["query_string"]))
    if unknown := given.keys() - set(PARAMETERS):
        raise InvalidInput(f"there is no parameter {min(unknown)[:40]!r}; there are {' and '.join(PARAMETERS)}")
    if "at" in given:
        if not re.fullmatch(r"[1-9]\d{0,17}", given["at"]):
            raise InvalidInput(f"at has to be the number of an event, not {given['at'][:40]!r}")
        given["at"] = int(given["at"])
    return given
