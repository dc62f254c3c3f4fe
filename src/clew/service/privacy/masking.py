"""Redaction: which secrets sessions hold, and masking them in whatever leaves this machine.

The rules and the key are loaded once per process, when something is first masked. The key is of the store's home, so
that a secret has one mark in it; it never leaves the home, and without it a mark says nothing.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew.model import codec
from clew.model.events import AnyBody, Body, Draft, Event, Opaque, Removed
from clew.service.kernel.context import Context
from clew.service.privacy.mask_key import KEY_BYTES, mask_key

if TYPE_CHECKING:
    from clew.secrets.masking import Masker


def masker(context: Context) -> Callable[[bytes], bytes]:
    """What every answer goes through that leaves this machine: JSON stays JSON, everything else text."""
    mask = masker_of(context).mask
    return lambda answer: mask(answer)[0]


def masker_of(context: Context) -> "Masker":
    """The masker of the store's home."""
    return _masker(context.home)


def mask_drafts(context: Context, drafts: Iterable[Draft]) -> list[Draft]:
    """The drafts without their secrets, for a project whose setting `secrets` is `mask`."""
    mask = masker_of(context)
    return [msgspec.structs.replace(draft, body=masked_body(mask, draft.body)[0]) for draft in drafts]


def mask_events(mask: "Masker", events: Iterable[Event]) -> tuple[list[Event], Counter[str]]:
    """The events without their secrets, and how many of which rule there were."""
    counts = Counter[str]()
    masked = []
    for event in events:
        if not isinstance(event.body, Removed):
            body, found = masked_body(mask, event.body)
            counts += found
            event = msgspec.structs.replace(event, body=body) if found else event
        masked.append(event)
    return masked, counts


def masked_body(mask: "Masker", body: Body | Opaque) -> tuple[Body | Opaque, Counter[str]]:
    """A body without its secrets, and how many of which rule there were."""
    text, found = mask.mask(codec.encode(body))
    if not found:
        return body, found
    try:
        return codec.decode(body.kind, body.version, text.decode()), found
    except msgspec.ValidationError:
        # A mark where the kind wants a number: what it says is kept, as a kind that wants nothing.
        return Opaque(kind=f"clew.{body.kind}", raw=text.decode()), found


def searched_text(body: AnyBody) -> bytes:
    """The JSON text of a body; none of one that was removed."""
    return b"" if isinstance(body, Removed) else codec.encode(body)


@lru_cache(maxsize=4)
def _masker(home: str) -> "Masker":
    from clew.secrets.masking import Masker
    from clew.secrets.rules import with_own
    from clew.secrets.scanner import Scanner

    # A store without a home lasts as long as this process, and so does its key.
    return Masker(Scanner(with_own(home)), mask_key(Path(home)) if home else os.urandom(KEY_BYTES))
