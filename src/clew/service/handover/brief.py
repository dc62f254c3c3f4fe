"""Briefs: what the next worker needs to continue a session."""

import msgspec

from clew.model import knowledge
from clew.model.access import Right
from clew.model.brief import MOST_CHARACTERS
from clew.model.brief import brief as brief_of
from clew.model.conversation import conversation
from clew.model.events import CallMade, Event, MessageAdded, RuntimeAttached, TextPart
from clew.model.outline import Outline, whole_part
from clew.model.session import Session
from clew.model.working_set import working_set
from clew.service.handover.masked_history import MaskedHistory
from clew.service.handover.progress_files import progress_of_project
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.masking import masker_of, title_for_caller
from clew.service.sessions.history import History


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """A brief, and where the session was at work."""

    session: str
    cwd: str
    text: str


@operation(right=Right.READ, route="GET /sessions/{session}/brief", reads_views=True)
def brief(context: Context, session: Session) -> Brief:
    """Print the brief of a session: its goal, what was decided and learned, what is done and what is next."""
    history = _history(context, session)
    outline = history.outline()
    progress = progress_of_project(context, session.project)
    # A hook gives a program so many bytes in all.
    most = MOST_CHARACTERS - len(progress.encode())
    text = brief_of_history(history, last_answer=_last_answer(outline), most=most)
    return Brief(
        session=session.id,
        cwd=_last_directory(outline.events),
        text=f"{text}\n{progress}The whole session: clew show {session.id} --events",
    )


def brief_of_history(history: History, *, last_answer: str = "", most: int = MOST_CHARACTERS) -> str:
    """What the events of a history say that the next worker needs."""
    known = knowledge.fold(history.of_kinds(knowledge.KINDS))
    touched = working_set(history.of_kinds((CallMade.kind,)))
    return brief_of(history.session.title, known, touched, last=last_answer, most=most)


def _history(context: Context, session: Session) -> History:
    """The session as the caller may see it: a brief is cut from it."""
    if not context.masks_answers:
        return History(context.store, session)
    titled = msgspec.structs.replace(session, title=title_for_caller(context, session))
    return MaskedHistory(context.store, titled, masker_of(context))


def _last_answer(outline: Outline) -> str:
    """The last answer in the conversation that has a text."""
    for event in reversed(conversation(outline.events)):
        body = event.body
        if isinstance(body, MessageAdded) and body.role == "assistant":
            parts = (whole_part(part, outline.read) for part in body.content if isinstance(part, TextPart))
            if text := "\n".join(part.text for part in parts if isinstance(part, TextPart)):
                return text
    return ""


def _last_directory(events: list[Event]) -> str:
    attached = (event.body for event in reversed(events) if isinstance(event.body, RuntimeAttached))
    return next((body.cwd for body in attached if body.cwd), "")
