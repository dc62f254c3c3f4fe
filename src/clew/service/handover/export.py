"""Export: a session as files. Its own native files, or its conversation in a form others read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import Conflict, InvalidInput
from clew.model.session import Session
from clew.runtimes.base64_pieces import encoded
from clew.runtimes.fit import Fidelity
from clew.service.handover.native_export import masked_pieces, native_export
from clew.service.handover.outgoing import Outgoing
from clew.service.handover.own_forms import Form, formed
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.kernel.results import to_json
from clew.service.privacy.masking import masker_of, telling_masker_of
from clew.store.durable_folders import create_private

AsForm = Annotated[Form, msgspec.Meta(description="The form.")]
Upto = Annotated[int, msgspec.Meta(ge=1, description="Only up to this event.")]
Secrets = Annotated[bool, msgspec.Meta(description="The exact bytes, with the secrets in them.")]
Strict = Annotated[bool, msgspec.Meta(description="Refuse if anything would be dropped.")]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an export. `path` is where the program had it, for a native one."""

    name: str
    data: bytes
    path: str = ""
    masked: dict[str, int] = {}
    """How many secrets were masked, by rule."""
    fidelity: Fidelity = Fidelity(carried={})
    """What became of the session in this form."""


class _About(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a `File` that follow its data in the JSON text."""

    path: str
    masked: dict[str, int]
    fidelity: Fidelity


class ExportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an export that was written to `file`. `path` is where the program had it, for a native one."""

    name: str
    file: str
    bytes: int
    path: str = ""
    masked: dict[str, int] = {}
    """How many secrets were masked, by rule."""
    fidelity: Fidelity = Fidelity(carried={})
    """What became of the session in this form."""


def export_in_pieces(
    context: Context, session: Session, *, form: Form, upto: int | None, secrets: bool, strict: bool
) -> Iterator[bytes]:
    """The files as the JSON text of `export`, of which one piece is in memory at a time."""
    outgoing = _outgoing(context, session, form, upto=upto, secrets=secrets, strict=strict)
    mask = masker_of(context)
    if secrets and context.answers_leave_machine:
        for file in outgoing:
            file.pieces = masked_pieces(mask, file.pieces, file.name, file.masked)
    return _as_json(outgoing, mask.mask if context.answers_leave_machine else lambda text: (text, None))


def _as_json(outgoing: list[Outgoing], mask: Callable[[bytes], tuple[bytes, object]]) -> Iterator[bytes]:
    """The JSON text of a list of `File`. The pieces are masked already; `mask` masks what is said about them."""
    before = b"["
    for file in outgoing:
        name, _ = mask(to_json(file.name))
        yield b'%s{"name":%s,"data":"' % (before, name)
        yield from encoded(file.pieces)
        about, _ = mask(to_json(_About(path=file.path, masked=dict(file.masked), fidelity=file.fidelity)))
        yield b'",' + about.removeprefix(b"{")
        before = b","
    yield b"]" if outgoing else b"[]"


@operation(right=Right.READ, route="GET /sessions/{session}/export", in_pieces=export_in_pieces, reads_views=True)
def export(
    context: Context,
    session: Session,
    *,
    form: AsForm = Form.MARKDOWN,
    upto: Upto | None = None,
    secrets: Secrets = False,
    strict: Strict = False,
) -> list[File]:
    """Export a session, its secrets masked: its native files, or its conversation in a form others read."""
    files = []
    for outgoing in _outgoing(context, session, form, upto=upto, secrets=secrets, strict=strict):
        data = b"".join(outgoing.pieces)
        masked = dict(outgoing.masked)
        files.append(File(name=outgoing.name, data=data, path=outgoing.path, masked=masked, fidelity=outgoing.fidelity))
    return files


@operation(right=Right.READ, hidden=True, reads_views=True)
def export_files(
    context: Context,
    session: Session,
    *,
    folder: Annotated[str, msgspec.Meta(description="An existing folder for the files; none is overwritten.")],
    form: AsForm = Form.MARKDOWN,
    upto: Upto | None = None,
    secrets: Secrets = False,
    strict: Strict = False,
) -> list[ExportedFile]:
    """Export a session into files on this machine. However large it is, little of it is in memory at a time."""
    return [
        _write(Path(folder), outgoing)
        for outgoing in _outgoing(context, session, form, upto=upto, secrets=secrets, strict=strict)
    ]


def _outgoing(
    context: Context, session: Session, form: Form, *, upto: int | None, secrets: bool, strict: bool
) -> list[Outgoing]:
    if secrets:
        _permit_secrets(context, session)
    mask = None if secrets else telling_masker_of(context, session.project, session)
    if form == Form.NATIVE:
        return native_export(context, session, mask)
    return [formed(context, session, form, upto=upto, mask=mask, strict=strict)]


def _permit_secrets(context: Context, session: Session) -> None:
    """Rule on the session and on each ancestor, because the session shows the secrets that it inherited."""
    for part in context.store.lineage(session):
        permit(context, Right.EXPORT, context.unrestricted.session(part.id))


def _write(folder: Path, outgoing: Outgoing) -> ExportedFile:
    """Write a file as its pieces come; one that cannot be completed is removed."""
    path = folder / Path(outgoing.name).name  # A file name from a program is hostile.
    size = 0
    try:
        with open(path, "xb", opener=create_private) as file:
            try:
                for piece in outgoing.pieces:
                    size += file.write(piece)
            except BaseException:
                path.unlink()
                raise
    except FileExistsError:
        raise Conflict(f"{path} already exists and was not changed") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error
    return ExportedFile(
        name=outgoing.name, file=str(path), bytes=size, path=outgoing.path, masked=dict(outgoing.masked),
        fidelity=outgoing.fidelity,
    )  # fmt: skip
