"""Export: a session as files. Its own native files byte for byte, or its conversation in a form others read."""

import enum
from pathlib import PurePath
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.conversation import conversation
from clew.model.errors import NotFound
from clew.model.events import RuntimeAttached
from clew.model.session import Session
from clew.runtimes import runtime
from clew.runtimes.rounds import Answer, rounds
from clew.service.registry import Context, operation
from clew.store import originals
from clew.store.originals import Original


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


_NAMES = {Form.JSONL: "jsonl", Form.MARKDOWN: "md", Form.HTML: "html", Form.ATIF: "json", Form.COPILOT: "jsonl"}


@operation(right=Right.READ)
def export(
    context: Context,
    session: Session,
    *,
    form: Annotated[Form, msgspec.Meta(description="The form.")] = Form.MARKDOWN,
    upto: Annotated[int, msgspec.Meta(ge=1, description="Only up to this event.")] | None = None,
) -> list[File]:
    """Export a session: its native files byte for byte, or its conversation as JSON lines, Markdown, HTML or ATIF."""
    if form == Form.NATIVE:
        return _native(context, session)
    from clew.runtimes.interchange import About

    events = context.store.read(session, upto=upto)
    attached = next((one.body for one in reversed(events) if isinstance(one.body, RuntimeAttached)), None)
    about = About(
        session=session.id,
        title=session.title,
        project=session.project,
        agent=session.agent,
        runtime=attached.runtime if attached else "",
        cwd=attached.cwd if attached else "",
        opened_at=session.opened_at,
        exported_at=context.store.database.now(),
        head=events[-1].seq if events else 0,
        blob=context.store.load_blob,
    )
    name = f"{session.id}.{_NAMES[form]}"
    from clew.runtimes import clew_lines

    if form == Form.JSONL:
        return [File(name=name, data=clew_lines.export(events))]
    spoken = rounds(conversation(events))
    if form == Form.MARKDOWN:
        from clew.runtimes import markdown

        document = b"<!-- clew:session -->\n\n" + markdown.export(spoken, about)
        return [File(name=name, data=clew_lines.embed(document, events))]
    if form == Form.HTML:
        from clew.runtimes import page

        shown = page.export(spoken, about).replace(b"<head>", b"<head><!-- clew:session -->", 1)
        return [File(name=name, data=clew_lines.embed(shown, events))]
    if form == Form.COPILOT:
        from clew.runtimes import interchange

        return [File(name=name, data=interchange.export(spoken, about))]
    from clew.runtimes import atif

    model = next((one.model for one in spoken if isinstance(one, Answer) and one.model), "")
    data = atif.export(spoken, session=session.id, agent=session.agent, model=model, title=session.title)
    return [File(name=name, data=data)]


def _native(context: Context, session: Session) -> list[File]:
    kept = [one for one in originals.originals(context.store, session) if not one.erased]
    if not kept:
        raise NotFound(
            f"session {session.id} was not captured from an agent program, so it has no native files; use another form",
            session=session.id,
        )
    files = []
    for one in kept:
        data = originals.load(context.store, one)
        if len(data) < one.kept:
            raise NotFound(f"the native file of session {session.id} was removed by a retention policy")
        files.append(_assembled(one, data) if "#" in one.path and _is_rows(one) else _file(one, data))
    return files


def _file(one: Original, data: bytes) -> File:
    return File(name=PurePath(one.path).name, data=data, path=one.path)


def _is_rows(one: Original) -> bool:
    return any(format.rows is not None for format in runtime(one.runtime).formats if format.name == one.format)


class _Row(msgspec.Struct, array_like=True):
    key: str
    record: msgspec.Raw


def _assembled(one: Original, data: bytes) -> File:
    format = next(format for format in runtime(one.runtime).formats if format.name == one.format)
    if format.rows is None:
        raise AssertionError("asked for by _is_rows")
    records = [msgspec.json.decode(line, type=_Row) for line in data.split(b"\n") if line]
    made = format.rows.assemble(one.native, [(row.key, bytes(row.record)) for row in records])
    return File(name=f"{one.native}.json", data=made, path=one.path)
