"""A session's conversation in a form that others read: clew's own lines, a page, ATIF, Copilot's interchange.

Secrets are masked before a form is made of the events, so that no form can hide one, and again in what was made: what
is harmless in one event may be a secret beside the next one.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from clew.model.conversation import conversation
from clew.model.course import course_of
from clew.model.errors import Lossy
from clew.model.events import Event, RuntimeAttached
from clew.model.outline import Outline
from clew.model.session import Session
from clew.model.title import uncut
from clew.model.transcript import items, whole
from clew.runtimes.fit import Fidelity
from clew.runtimes.rounds import Answer, Round, rounds
from clew.secrets.blobs import without_secrets
from clew.secrets.stream import mask_elements, mask_text
from clew.service.handover.masked_history import MaskedHistory
from clew.service.handover.outgoing import Outgoing
from clew.service.kernel.context import Context
from clew.service.sessions.history import History
from clew.service.sessions.line import session_line
from clew.store.objects import objects

if TYPE_CHECKING:
    from clew.runtimes.adapters.interchange import About
    from clew.runtimes.export_forms.entries import Entry
    from clew.secrets.masking import Masker


class Form(enum.StrEnum):
    NATIVE = "native"
    JSONL = "jsonl"
    MARKDOWN = "markdown"
    HTML = "html"
    ATIF = "atif"
    COPILOT = "copilot"


SUFFIXES = {Form.JSONL: "jsonl", Form.MARKDOWN: "md", Form.HTML: "html", Form.ATIF: "json", Form.COPILOT: "jsonl"}


def formed(
    context: Context, session: Session, form: Form, *, upto: int | None, mask: "Masker | None", strict: bool
) -> Outgoing:
    """The session in a form of ours; with `strict` a form that would drop something is refused."""
    # A person reads a document; one damaged event must not keep the others from it.
    reads_damaged = form in (Form.MARKDOWN, Form.HTML)
    history = History(context.store, session, upto=upto, reads_damaged=reads_damaged)
    if mask is not None:
        history = MaskedHistory(context.store, session, mask, upto=upto, reads_damaged=reads_damaged)
    outline = history.outline()
    fidelity = _fidelity(form, outline.events)
    if strict and fidelity.dropped:
        lost = ", ".join(f"{change.count} {change.what} ({change.why})" for change in fidelity.dropped)
        raise Lossy(f"{form} cannot take everything: {lost}; leave out --strict to go on without", lost=lost)
    about = _about(context, session, outline, is_whole=upto is None)
    if mask is not None:
        about = _masked_about(about, mask)
    masked = history.counts if isinstance(history, MaskedHistory) else Counter[str]()
    return Outgoing(
        name=f"{session.id}.{SUFFIXES[form]}",
        pieces=_pieces(form, history, outline, about, mask, masked),
        masked=masked,
        fidelity=fidelity,
    )


def _fidelity(form: Form, events: list[Event]) -> Fidelity:
    from clew.runtimes.export_forms import fidelity as forms

    if form == Form.JSONL:
        return forms.lines(events)
    if form in (Form.MARKDOWN, Form.HTML):
        return forms.page(events, images=form == Form.HTML)
    return forms.trajectory(events) if form == Form.ATIF else forms.interchange(events)


def _about(context: Context, session: Session, outline: Outline, *, is_whole: bool) -> "About":
    from clew.runtimes.adapters.interchange import NOTHING, About, Totals

    events = outline.events
    line = session_line(context, session)
    attached = next((event.body for event in reversed(events) if isinstance(event.body, RuntimeAttached)), None)
    return About(
        session=session.id,
        title=uncut(session.title),
        project=session.project,
        agent=session.agent,
        runtime=attached.runtime if attached else "",
        cwd=attached.cwd if attached else "",
        began_at=line.began_at,
        last_at=line.last_at,
        opened_at=session.opened_at,
        exported_at=context.store.now(),
        head=events[-1].seq if events else 0,
        totals=Totals(**{name: getattr(line, name) for name in Totals.__struct_fields__}) if is_whole else NOTHING,
        blob=partial(objects.load, context.store),
        read=outline.read,
    )


def _masked_about(about: "About", mask: "Masker") -> "About":
    def blob(digest: str) -> bytes:
        return without_secrets(mask, about.blob(digest))[0]

    texts = {name: mask.mask(getattr(about, name))[0] for name in ("title", "project", "agent", "cwd")}
    return msgspec.structs.replace(about, blob=blob, **texts)


def _pieces(
    form: Form, history: History, outline: Outline, about: "About", mask: "Masker | None", counts: Counter[str]
) -> Iterator[bytes]:
    def masked(pieces: Iterable[bytes]) -> Iterable[bytes]:
        return pieces if mask is None else mask_text(mask, pieces, counts)

    if form == Form.JSONL:
        from clew.runtimes.adapters import clew_lines

        return iter(masked(clew_lines.lines(history)))
    if form in (Form.MARKDOWN, Form.HTML):
        return _document(form, history, outline, about, masked)
    spoken = rounds(conversation(outline.events))
    outline.events.clear()  # Only the rounds are needed from here on.
    if form == Form.ATIF:
        return _trajectory(spoken, about, mask, counts)
    from clew.runtimes.adapters import interchange

    return iter(masked(interchange.pieces(spoken, about)))


def _document(
    form: Form, history: History, outline: Outline, about: "About", masked: Callable[[Iterable[bytes]], Iterable[bytes]]
) -> Iterator[bytes]:
    """A document of the transcript, with the events in it for programs."""
    from clew.runtimes.adapters import clew_lines
    from clew.runtimes.export_forms.entries import entries

    course = course_of(outline.events)
    said_at = next((event.said_at for event in outline.events if event.said_at is not None), None)
    outline.events.clear()
    shown = entries(items(history, whole(course, history.read, said_at=said_at)))
    return clew_lines.embed(masked(_page(form, shown, about)), history)


def _page(form: Form, shown: "Iterable[Entry]", about: "About") -> Iterator[bytes]:
    """A page that says at its beginning that a session is in it."""
    if form == Form.MARKDOWN:
        from clew.runtimes.export_forms import markdown

        return chain([b"<!-- clew:session -->\n\n"], markdown.pieces(shown, about))
    from clew.runtimes.export_forms import page

    pieces = page.pieces(shown, about)
    return chain([next(pieces).replace(b"<head>", b"<head><!-- clew:session -->", 1)], pieces)


def _trajectory(spoken: list[Round], about: "About", mask: "Masker | None", counts: Counter[str]) -> Iterator[bytes]:
    from clew.runtimes.adapters import atif

    model = next((answer.model for answer in spoken if isinstance(answer, Answer) and answer.model), "")
    steps = atif.steps(spoken, about.read)
    if mask is not None:
        steps = mask_elements(mask, steps, counts)
    return atif.document(
        steps, session=about.session, agent=about.agent, model=model, title=about.title, totals=about.totals
    )
