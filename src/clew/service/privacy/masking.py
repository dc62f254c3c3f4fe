"""Mask secrets in events, and in every answer that leaves this machine.

The rules and the key are loaded once per process, on first use. The key belongs to the store's home, so a secret has
the same mark everywhere in the store. The key never leaves the home; without it a mark reveals nothing.
"""

import hmac
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew.model import codec
from clew.model.access import Right, Target
from clew.model.events import TITLED, AnyBody, Body, Draft, Event, Opaque, Removed
from clew.model.session import Session
from clew.model.title import uncut
from clew.service.kernel.call import target_of
from clew.service.kernel.context import Context
from clew.service.privacy.mask_key import KEY_BYTES, mask_key

if TYPE_CHECKING:
    from clew.secrets.masking import Masker
    from clew.secrets.scanner import Scanner


def masker(context: Context) -> Callable[[bytes], bytes]:
    """The function that masks each answer that leaves this machine; JSON stays valid JSON."""
    mask = masker_of(context).mask
    return lambda answer: mask(answer)[0]


def masker_of(context: Context) -> "Masker":
    """The masker whose marks reveal nothing, for callers who could confirm a guess with a tag."""
    return _masker(context.home, "")


def telling_masker_of(context: Context, project: str, session: Session | None = None) -> "Masker":
    """The masker that marks equal secrets of a project alike, if the caller may export them."""
    may_export = bool(project) and context.caller.rule(Right.EXPORT, Target(project=project)).allowed
    if may_export:
        may_export = _may_export_all(context, project, session)
    return _masker(context.home, project) if may_export else masker_of(context)


def mask_drafts(context: Context, drafts: Iterable[Draft]) -> list[Draft]:
    """The drafts without their secrets, for a project whose setting `secrets` is `mask`."""
    mask = masker_of(context)
    return [msgspec.structs.replace(draft, body=masked_body(mask, draft.body)[0]) for draft in drafts]


def mask_events(mask: "Masker", events: Iterable[Event]) -> tuple[list[Event], Counter[str]]:
    """The masked events, and the number of secrets by rule."""
    counts = Counter[str]()
    masked = []
    for event in events:
        if not isinstance(event.body, Removed):
            body, body_counts = masked_body(mask, event.body)
            counts += body_counts
            event = event if body is event.body else msgspec.structs.replace(event, body=body)
        masked.append(event)
    return masked, counts


def masked_for_caller(context: Context) -> Callable[[Event], Event]:
    """The function that gives an event as the caller may see it: before anything is cut from it or searched in it."""
    if not context.masks_answers:
        return lambda event: event
    mask = masker_of(context)
    return lambda event: mask_events(mask, [event])[0][0]


def may_see_secrets(context: Context, project: str = "", session: Session | None = None) -> bool:
    """Whether masking hides nothing that the caller could not export: here, or with the right to export all of it."""
    return not context.masks_answers or _may_export_all(context, project, session)


def _may_export_all(context: Context, project: str, session: Session | None) -> bool:
    """Whether the caller may export all that they may read: of a session, of a project, or anywhere."""
    if session is not None:
        return context.caller.rule(Right.EXPORT, target_of(session)).allowed
    return context.caller.exports_all(project)


def title_for_caller(context: Context, session: Session) -> str:
    title = uncut(session.title)
    return masker_of(context).mask(title)[0] if context.masks_answers else title


def masked_body(mask: "Masker", body: Body | Opaque) -> tuple[Body | Opaque, Counter[str]]:
    """The masked body, and the number of secrets by rule."""
    if isinstance(body, TITLED) and body.title != uncut(body.title):
        body = msgspec.structs.replace(body, title=uncut(body.title))
    text, counts = mask.mask(codec.encode(body))
    if not counts:
        return body, counts
    try:
        return codec.decode(body.kind, body.version, text.decode()), counts
    except msgspec.ValidationError:
        # A mark replaced a value that is not a text. The JSON is kept under a kind without a schema.
        return Opaque(kind=f"clew.{body.kind}", raw=text.decode()), counts


def searched_text(body: AnyBody) -> bytes:
    """The JSON text of a body; empty for a removed body."""
    return b"" if isinstance(body, Removed) else codec.encode(body)


@lru_cache(maxsize=64)
def _masker(home: str, project: str) -> "Masker":
    from clew.secrets.masking import Masker

    # A store without a home is in memory, so its key need not outlive the process.
    key = (mask_key(Path(home)) if home else os.urandom(KEY_BYTES)) if project else b""
    return Masker(_scanner(home), hmac.digest(key, project.encode(), "sha256") if project else b"")


@lru_cache(maxsize=4)
def _scanner(home: str) -> "Scanner":
    from clew.secrets.rules import with_own
    from clew.secrets.scanner import Scanner

    return Scanner(with_own(home))
