"""The operation `scan`: which secrets sessions contain, and where."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.events import Event
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.masking import searched_text, telling_masker_of

if TYPE_CHECKING:
    from clew.secrets.masking import Mark, Masker

AROUND = 40

# One call scans at most this many bytes and events; the caller continues from `next`.
SCANNED_BYTES, SCANNED_EVENTS = 4 * 1024 * 1024, 1_000


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret in an event: its rule, its mark, how often it occurs, and the masked text around it."""

    session: str
    seq: int
    rule: str
    mark: str
    times: int
    context: str


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """The secrets in a part of the log. `next` is the cursor of the next part; None after the last."""

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
    mask = telling_masker_of(context, session.project if session else project, session)
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
    for secret in found:
        rules[secret.rule] += secret.times
    is_all = events == len(portion) < SCANNED_EVENTS
    return Scanned(found=found, rules=dict(rules), events=events, bytes=size, next=None if is_all else after)


def _portion(context: Context, session: Session | None, project: str, after: int) -> list[Event]:
    if session:
        if project and project != session.project:
            raise InvalidInput(f"session {session.id} is in project {session.project}, not in {project}; leave one out")
        return list(context.store.read(session, after=after, limit=SCANNED_EVENTS))
    if project:
        from clew.service.find.filters import project_keys

        project_keys(context, project, Right.READ)
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
    """A mark with a little of the text before and after it."""
    from clew.secrets.escapes import unescaped

    start = masked.find(str(mark).encode())
    before = unescaped(masked[max(0, start - 4 * AROUND) : start]).decode(errors="ignore")
    from_mark = unescaped(masked[start : start + len(str(mark)) + 4 * AROUND]).decode(errors="ignore")
    return f"{before[-AROUND:]}{from_mark[: len(str(mark)) + AROUND]}"
