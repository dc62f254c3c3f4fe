"""Scanning: which secrets sessions hold, and where."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.events import Event
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.masking import masker_of, searched_text

if TYPE_CHECKING:
    from clew.secrets.masking import Mark, Masker

AROUND = 40

# A scan looks at this much in one go, or at this many events: a caller comes back for the rest.
SCANNED_BYTES, SCANNED_EVENTS = 4 * 1024 * 1024, 1_000


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
        text = searched_text(event.body)
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
