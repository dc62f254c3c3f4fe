"""Redaction: which secrets sessions hold, and masking them in whatever leaves this machine.

The rules and the key are loaded once per process, when something is first masked. The key is of the store's home, so
that a secret has one mark in it; it never leaves the home, and without it a mark says nothing.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from clew.model import codec
from clew.model.access import Right
from clew.model.errors import InvalidInput, Unavailable
from clew.model.events import AnyBody, Body, Draft, Event, Opaque, Removed
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation

if TYPE_CHECKING:
    from clew.secrets.masking import Mark, Masker

KEY = "mask.key"
KEY_BYTES = 32
# A scan looks at this much in one go, or at this many events: a caller comes back for the rest.
SCANNED_BYTES, SCANNED_EVENTS = 4 * 1024 * 1024, 1_000
AROUND = 40


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret in an event: its rule, its mark, how often it is there, and what stands around it, masked."""

    session: str
    seq: int
    rule: str
    mark: str
    times: int
    context: str


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """What a stretch of the log holds. `next` goes on from there; none when all was seen."""

    found: list[Secret]
    rules: dict[str, int]
    events: int
    bytes: int
    next: int | None = None


@operation(right=Right.READ, route="GET /scan", filters_by_reach=True)
def scan(
    context: Context,
    session: Session | None = None,
    *,
    project: Annotated[str, msgspec.Meta(description="Only this project.")] = "",
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="Go on from here: `next` of a scan.")] = 0,
) -> Scanned:
    """Look for secrets in a session, in a project or in everything you may read. Shows where, never the secret."""
    mask = masker_of(context)
    found: list[Secret] = []
    events = size = 0
    portion = _portion(context, session, project, after)
    for event in portion:
        text = _text(event.body)
        found += _secrets(mask, event, text)
        events, size = events + 1, size + len(text)
        after = event.seq if session else event.position
        if size >= SCANNED_BYTES:
            break
    rules = Counter[str]()
    for one in found:
        rules[one.rule] += one.times
    is_all = events == len(portion) < SCANNED_EVENTS
    return Scanned(found=found, rules=dict(rules), events=events, bytes=size, next=None if is_all else after)


def _portion(context: Context, session: Session | None, project: str, after: int) -> list[Event]:
    if session:
        if project and project != session.project:
            raise InvalidInput(f"session {session.id} is in project {session.project}, not in {project}; leave one out")
        return list(context.store.read(session, after=after, limit=SCANNED_EVENTS))
    if project:
        from clew.service.find.filters import project_key

        project_key(context, project, Right.READ)
    reach = context.reach(Right.READ)
    return list(context.store.tail(after=after, project=project, limit=SCANNED_EVENTS, reach=reach))


def _secrets(mask: "Masker", event: Event, text: bytes) -> list[Secret]:
    masked, marks = mask.marked(text)
    return [
        Secret(
            session=event.session,
            seq=event.seq,
            rule=mark.rule,
            mark=str(mark),
            times=times,
            context=_around(masked, mark),
        )
        for mark, times in Counter(marks).items()
    ]


def _around(masked: bytes, mark: "Mark") -> str:
    """A mark and a little of what stands before and after it."""
    from clew.secrets.escapes import unescaped

    at = masked.find(str(mark).encode())
    before = unescaped(masked[max(0, at - 4 * AROUND) : at]).decode(errors="ignore")
    behind = unescaped(masked[at : at + len(str(mark)) + 4 * AROUND]).decode(errors="ignore")
    return f"{before[-AROUND:]}{behind[: len(str(mark)) + AROUND]}"


# Masking --------------------------------------------------------------------------------------------------------------


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


def _text(body: AnyBody) -> bytes:
    """The JSON text of a body; none of one that was removed."""
    return b"" if isinstance(body, Removed) else codec.encode(body)


# Rules and key --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _masker(home: str) -> "Masker":
    from clew.secrets.masking import Masker
    from clew.secrets.rules import with_own
    from clew.secrets.scanner import Scanner

    # A store without a home lasts as long as this process, and so does its key.
    return Masker(Scanner(with_own(home)), _key(Path(home)) if home else os.urandom(KEY_BYTES))


def _key(home: Path) -> bytes:
    """The key of a home, made when there is none."""
    path = home / KEY
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise Unavailable(
            f"the key that secrets are masked with cannot be read from {path}: {error.strerror}"
        ) from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            f"{path} has {len(key)} bytes, and a key has {KEY_BYTES}; restore it, or delete it: a new one is made, and "
            "secrets masked from then on have other marks"
        )
    return key


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = path.with_name(f"{KEY}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # Of several processes that begin at once, the key of the first is everyone's.
        with contextlib.suppress(FileExistsError):
            os.link(made, path)
    finally:
        made.unlink(missing_ok=True)
