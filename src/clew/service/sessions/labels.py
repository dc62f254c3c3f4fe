"""Labels: the operations that give a session a title, tags, a star and notes, and what it has of them.

Each is an event of the session. They need no lease and no state, because they say nothing of the work, so a session
takes them while a program writes to it, and when it is closed or archived.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput, NotFound
from clew.model.events import (
    Body,
    Draft,
    NoteAdded,
    NoteRemoved,
    SessionStarred,
    SessionTagged,
    SessionUnstarred,
    SessionUntagged,
    TitleGiven,
)
from clew.model.ids import new_id
from clew.model.labels import LONGEST_NOTE, LONGEST_TITLE, NOTE, STAR, TAG, Label, checked_tag
from clew.model.session import Session
from clew.service.find import filters
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.mask_on_write import masked_if_required
from clew.service.sessions.line import SessionLine, labels_of, session_line

MOST_TAGS = 50

Tags = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=200)]],
    msgspec.Meta(min_length=1, max_length=MOST_TAGS, description="Words such as work or client/acme."),
]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note about a session: what somebody wrote, and when."""

    note: str
    text: str
    by: str
    at: int


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A session and the notes about it, the oldest first."""

    id: str
    title: str
    notes: list[Note]


class TagCount(msgspec.Struct, frozen=True, kw_only=True):
    """A tag, on how many sessions it is, and when something last happened in one of them."""

    tag: str
    sessions: int
    last_at: int


@operation(right=Right.APPEND, route="PUT /sessions/{session}/title", reads_views=True, repeatable=True)
def title(
    context: Context,
    session: Session,
    title: Annotated[str, msgspec.Meta(max_length=10_000, description="What it is about, in a few words.")],
) -> SessionLine:
    """Give a session a title; no title that its program writes later replaces it."""
    words = " ".join(title.split())
    if not words:
        raise InvalidInput("the title is empty; give at least one word")
    if len(words) > LONGEST_TITLE:
        raise InvalidInput(f"the title has {len(words):,} characters; give at most {LONGEST_TITLE}")
    if words != session.title or not _has_given_title(context, session):
        _add(context, session, TitleGiven(title=words))
    return session_line(context, session)


@operation(right=Right.APPEND, route="PUT /sessions/{session}/tags", reads_views=True, repeatable=True)
def tag(
    context: Context,
    session: Session,
    tags: Tags,
    *,
    remove: Annotated[bool, msgspec.Meta(description="Take the tags away.")] = False,
) -> SessionLine:
    """Tag a session; lists and searches filter by tags."""
    wanted = tuple(dict.fromkeys(map(checked_tag, tags)))
    present = {label.name for label in labels_of(context, session) if label.kind == TAG}
    changed = tuple(name for name in wanted if (name in present) == remove)
    if changed:
        _add(context, session, SessionUntagged(tags=changed) if remove else SessionTagged(tags=changed))
    return session_line(context, session)


@operation(right=Right.APPEND, route="PUT /sessions/{session}/star", reads_views=True, repeatable=True)
def star(
    context: Context,
    session: Session,
    *,
    remove: Annotated[bool, msgspec.Meta(description="Take the star away.")] = False,
) -> SessionLine:
    """Star a session; your stars are your own, and nobody else's list shows them."""
    is_starred = any(label.kind == STAR for label in labels_of(context, session))
    if is_starred == remove:
        _add(context, session, SessionUnstarred() if remove else SessionStarred())
    return session_line(context, session)


@operation(right=Right.APPEND, route="POST /sessions/{session}/notes", reads_views=True)
def note(
    context: Context,
    session: Session,
    text: Annotated[str, msgspec.Meta(max_length=LONGEST_NOTE, description="What there is to say.")],
) -> Noted:
    """Add a note to a session; whoever may read the session reads it."""
    if not text.strip():
        raise InvalidInput("the note is empty; give at least one word")
    _add(context, session, NoteAdded(note=new_id(), text=text.strip()))
    return notes(context, session)


@operation(right=Right.APPEND, route="DELETE /sessions/{session}/notes/{note}", reads_views=True, hidden=True)
def note_remove(
    context: Context, session: Session, note: Annotated[str, msgspec.Meta(description="Its id, or a beginning of it.")]
) -> Noted:
    """Remove a note; the log keeps that it was there."""
    ids = [label.name for label in labels_of(context, session) if label.kind == NOTE]
    matching = [id for id in ids if note and id.startswith(note)]
    if len(matching) != 1:
        found = f"{len(matching)} notes whose ids begin with" if matching else "no note"
        raise NotFound(f"session {session.id} has {found} {note[:40]!r}", session=session.id, missing="note of session")
    _add(context, session, NoteRemoved(note=matching[0]))
    return notes(context, session)


@operation(right=Right.READ, route="GET /sessions/{session}/notes", reads_views=True, hidden=True)
def notes(context: Context, session: Session) -> Noted:
    """List the notes about a session, the oldest first."""
    labels = labels_of(context, session)
    return Noted(id=session.id, title=session.title, notes=notes_among(labels))


@operation(right=Right.SEE, route="GET /tags", filters_by_reach=True, reads_views=True)
def tags(
    context: Context,
    *,
    project: filters.Project = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")] = 1000,
) -> list[TagCount]:
    """List the tags that are in use, and on how many sessions each is."""
    context.views.catch_up()
    only = filters.in_project(filters.project_keys(context, project, Right.SEE)) if project else {}
    with context.views.read() as tx:
        rows = tx.run("labels_tags", limit=limit, **only, **context.reach(Right.SEE))
    return [TagCount(tag=name, sessions=count, last_at=last_at) for name, count, last_at in rows]


def notes_among(labels: Iterable[Label]) -> list[Note]:
    """The notes among some labels, the oldest first."""
    return [
        Note(note=label.name, text=label.text, by=label.actor, at=label.at) for label in labels if label.kind == NOTE
    ]


def _has_given_title(context: Context, session: Session) -> bool:
    own = context.store.read(session, after=session.upto, kinds=(TitleGiven.kind,), limit=1)
    return any(True for _ in own)


def _add(context: Context, session: Session, body: Body) -> None:
    drafts = masked_if_required(context, session.project, [Draft(body=body)])
    context.store.append(session, drafts, actor=context.principal)
