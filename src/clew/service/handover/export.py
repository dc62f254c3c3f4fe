"""Export: a session as files. Its own native files, or its conversation in a form others read.

Secrets are masked before a form is made of the events, so that no form can hide one, and again in what was made.
"""

import enum
from collections import Counter
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import msgspec

from clew.model.access import Right
from clew.model.conversation import conversation
from clew.model.errors import Conflict, Lossy, NotFound
from clew.model.events import Event, RuntimeAttached
from clew.model.session import Session
from clew.runtimes import runtime
from clew.runtimes.fit import Fidelity
from clew.runtimes.rounds import Answer, rounds
from clew.service.capture.packed_files import files_to_export
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.masking import mask_events, masker_of
from clew.store.native_files.lookup import files_of, load_bytes
from clew.store.native_files.native_file import NativeFile
from clew.store.objects import objects

if TYPE_CHECKING:
    from clew.runtimes.adapters.interchange import About
    from clew.secrets.masking import Masker


class Form(enum.StrEnum):
    NATIVE = "native"
    JSONL = "jsonl"
    MARKDOWN = "markdown"
    HTML = "html"
    ATIF = "atif"
    COPILOT = "copilot"


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an export. `path` is where the program had it, for a native one."""

    name: str
    data: bytes
    path: str = ""
    masked: dict[str, int] = {}
    """How many secrets were masked, by rule."""
    fidelity: Fidelity = Fidelity(carried={})
    """What became of the session in this form."""


_NAMES = {Form.JSONL: "jsonl", Form.MARKDOWN: "md", Form.HTML: "html", Form.ATIF: "json", Form.COPILOT: "jsonl"}


def _permit_secrets(context: Context, session: Session) -> None:
    """Who takes a session out with its secrets takes out those that it inherited, too."""
    for part in context.store.lineage(session):
        permit(context, Right.EXPORT, context.unrestricted.session(part.id))


@operation(right=Right.READ, route="GET /sessions/{session}/export")
def export(
    context: Context,
    session: Session,
    *,
    form: Annotated[Form, msgspec.Meta(description="The form.")] = Form.MARKDOWN,
    upto: Annotated[int, msgspec.Meta(ge=1, description="Only up to this event.")] | None = None,
    secrets: Annotated[bool, msgspec.Meta(description="The exact bytes, with the secrets in them.")] = False,
    strict: Annotated[bool, msgspec.Meta(description="Refuse if anything would be dropped.")] = False,
) -> list[File]:
    """Export a session, its secrets masked: its native files, or its conversation in a form others read."""
    if secrets:
        _permit_secrets(context, session)
    mask = None if secrets else masker_of(context)
    if form == Form.NATIVE:
        files = _native(context, session, exact=secrets)
        return [masked_file(file, mask) for file in files] if mask else files
    events = list(context.store.read(session, upto=upto))
    fidelity = _fidelity(form, events)
    if strict and fidelity.dropped:
        lost = ", ".join(f"{one.count} {one.what} ({one.why})" for one in fidelity.dropped)
        raise Lossy(f"{form} cannot take everything: {lost}; leave out --strict to go on without", lost=lost)
    return [msgspec.structs.replace(_formed(context, session, form, events, mask), fidelity=fidelity)]


def _fidelity(form: Form, events: list[Event]) -> Fidelity:
    from clew.runtimes.export_forms import fidelity as forms

    if form == Form.JSONL:
        return forms.lines(events)
    if form in (Form.MARKDOWN, Form.HTML):
        return forms.page(events, images=form == Form.HTML)
    return forms.trajectory(events) if form == Form.ATIF else forms.interchange(events)


def _formed(context: Context, session: Session, form: Form, events: list[Event], mask: "Masker | None") -> File:
    """The session in a form of ours."""
    name = f"{session.id}.{_NAMES[form]}"
    counts = Counter[str]()
    about = _about(context, session, events)
    if mask:
        events, counts = mask_events(mask, events)
        about = _masked_about(about, mask)
    data = _rendered(form, events, about)
    if mask:
        # What is harmless in one event may be a secret beside the next one.
        data, more = mask.mask(data)
        counts += more
    if form in (Form.MARKDOWN, Form.HTML):
        from clew.runtimes.adapters import clew_lines

        data = clew_lines.embed(data, events)
    return File(name=name, data=data, masked=dict(counts))


def _about(context: Context, session: Session, events: list[Event]) -> "About":
    from clew.runtimes.adapters.interchange import About

    attached = next((one.body for one in reversed(events) if isinstance(one.body, RuntimeAttached)), None)
    return About(
        session=session.id,
        title=session.title,
        project=session.project,
        agent=session.agent,
        runtime=attached.runtime if attached else "",
        cwd=attached.cwd if attached else "",
        opened_at=session.opened_at,
        exported_at=context.store.now(),
        head=events[-1].seq if events else 0,
        blob=partial(objects.load, context.store),
    )


def _rendered(form: Form, events: list[Event], about: "About") -> bytes:
    if form == Form.JSONL:
        from clew.runtimes.adapters import clew_lines

        return clew_lines.export(events)
    spoken = rounds(conversation(events))
    if form == Form.MARKDOWN:
        from clew.runtimes.export_forms import markdown

        return b"<!-- clew:session -->\n\n" + markdown.export(spoken, about)
    if form == Form.HTML:
        from clew.runtimes.export_forms import page

        return page.export(spoken, about).replace(b"<head>", b"<head><!-- clew:session -->", 1)
    if form == Form.COPILOT:
        from clew.runtimes.adapters import interchange

        return interchange.export(spoken, about)
    from clew.runtimes.adapters import atif

    model = next((one.model for one in spoken if isinstance(one, Answer) and one.model), "")
    return atif.export(spoken, session=about.session, agent=about.agent, model=model, title=about.title)


# Masking --------------------------------------------------------------------------------------------------------------


def _masked_about(about: "About", mask: "Masker") -> "About":
    def blob(digest: str) -> bytes:
        data = about.blob(digest)
        return data if _is_binary(data) else mask.mask(data)[0]

    told = {name: mask.mask(getattr(about, name))[0] for name in ("title", "project", "agent", "cwd")}
    return msgspec.structs.replace(about, blob=blob, **told)


def masked_file(file: File, mask: "Masker") -> File:
    """A native file without its secrets, if it is text."""
    data, counts = mask.mask(file.data)
    if counts and _is_binary(file.data):
        raise Conflict(
            f"{file.name} is binary and holds {sum(counts.values())} secrets ({', '.join(sorted(counts))}), which "
            "cannot be masked in it; use another form, or --with-secrets for the exact bytes",
            rules=sorted(counts),
        )
    return msgspec.structs.replace(file, data=data, masked=dict(counts))


def _is_binary(data: bytes) -> bool:
    """Whether it is no text: a database, an image."""
    return b"\0" in data[:1024]


# Native files ---------------------------------------------------------------------------------------------------------


def _native(context: Context, session: Session, *, exact: bool) -> list[File]:
    files = files_to_export(files_of(context.store, session), exact=exact)
    kept = [one for one in files if not one.erased]
    if not kept:
        raise NotFound(
            f"session {session.id} was not captured from an agent program, so it has no native files; use another form",
            session=session.id,
        )
    made = []
    for one in kept:
        data = load_bytes(context.store, one)
        if len(data) < one.stored_bytes:
            raise NotFound(f"the native file of session {session.id} was removed by a retention policy")
        file = _assembled(one, data) if "#" in one.path and _is_rows(one) else _file(one, data)
        carried = Fidelity(carried={"records": one.translated + one.opaque + one.quarantined})
        made.append(msgspec.structs.replace(file, fidelity=carried))
    return made


def _file(one: NativeFile, data: bytes) -> File:
    return File(name=PurePath(one.path).name, data=data, path=one.path)


def _is_rows(one: NativeFile) -> bool:
    return any(format.rows is not None for format in runtime(one.runtime).formats if format.name == one.format)


class _Row(msgspec.Struct, array_like=True):
    key: str
    record: msgspec.Raw


def _assembled(one: NativeFile, data: bytes) -> File:
    format = next(format for format in runtime(one.runtime).formats if format.name == one.format)
    if format.rows is None:
        raise AssertionError("asked for by _is_rows")
    records = [msgspec.json.decode(line, type=_Row) for line in data.split(b"\n") if line]
    made = format.rows.assemble(one.native_id, [(row.key, bytes(row.record)) for row in records])
    return File(name=f"{one.native_id}.json", data=made, path=one.path)
