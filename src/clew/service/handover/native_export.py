"""The native files of a session, byte for byte as the program had them, or without their secrets."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec

from clew.model.errors import Conflict, NotFound
from clew.model.session import Session
from clew.runtimes import runtime
from clew.runtimes.contract import Format
from clew.runtimes.fit import Fidelity
from clew.secrets import blobs
from clew.secrets.blobs import is_binary
from clew.service.capture.packed_files import files_to_export
from clew.service.handover.outgoing import Outgoing
from clew.service.kernel.context import Context
from clew.store import Store
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.stored_bytes import is_complete, iterate_bytes

if TYPE_CHECKING:
    from clew.secrets.masking import Masker


def native_export(context: Context, session: Session, mask: "Masker | None") -> list[Outgoing]:
    """The native files of a session; without a mask with their secrets in them."""
    native_files = files_to_export(files_of(context.store, session), exact=mask is None)
    kept = [native_file for native_file in native_files if not native_file.erased]
    if not kept:
        raise NotFound(
            f"session {session.id} was not captured from an agent program, so it has no native files; use another form",
            session=session.id,
        )
    for native_file in kept:
        if not is_complete(context.store, native_file):
            raise _removed(native_file)
    files = [_outgoing(context.store, native_file) for native_file in kept]
    if mask is not None:
        for file in files:
            file.pieces = masked_pieces(mask, file.pieces, file.name, file.masked)
    return files


def _outgoing(store: Store, native_file: NativeFile) -> Outgoing:
    rows = _rows(native_file)
    return Outgoing(
        name=f"{native_file.native_id}.json" if rows else PurePath(native_file.path).name,
        pieces=_assembled(store, native_file, rows) if rows else exact_pieces(store, native_file),
        path=native_file.path,
        masked=Counter(),
        fidelity=Fidelity(carried={"records": native_file.records}),
    )


def _removed(native_file: NativeFile) -> NotFound:
    return NotFound(f"the native file of session {native_file.session} was removed by a retention policy")


def exact_pieces(store: Store, native_file: NativeFile) -> Iterator[bytes]:
    """The bytes of a file; an error at the end if some were removed while it was read."""
    size = 0
    for piece in iterate_bytes(store, native_file):
        size += len(piece)
        yield piece
    if size < native_file.stored_bytes:
        raise _removed(native_file)


def masked_pieces(mask: "Masker", pieces: Iterator[bytes], name: str, counts: Counter[str]) -> Iterator[bytes]:
    """A file without its secrets if it is text; one that is not cannot be masked and must hold none."""
    beginning = next(pieces, b"")
    yield from blobs.masked_pieces(mask, chain([beginning], pieces), counts)
    if counts and is_binary(beginning):
        raise Conflict(
            f"{name} is binary and holds {counts.total()} secrets ({', '.join(sorted(counts))}), which "
            "cannot be masked in it; use another form, or --with-secrets for the exact bytes",
            rules=sorted(counts),
        )


# Rows of a database ---------------------------------------------------------------------------------------------------


class _Row(msgspec.Struct, array_like=True):
    key: str
    record: msgspec.Raw


def _rows(native_file: NativeFile) -> Format | None:
    """The format of a file that is rows of a database."""
    if "#" not in native_file.path:
        return None
    formats = (format for format in runtime(native_file.runtime).formats if format.name == native_file.format)
    return next((format for format in formats if format.rows is not None), None)


def _assembled(store: Store, native_file: NativeFile, format: Format) -> Iterator[bytes]:
    """The program's own export of a session that lies in its database: one document, which has to be made at once."""
    if format.rows is None:
        raise AssertionError("chosen by _rows")
    lines = _lines(exact_pieces(store, native_file))
    records = [msgspec.json.decode(line, type=_Row) for line in lines if line]
    yield format.rows.assemble(native_file.native_id, [(row.key, bytes(row.record)) for row in records])


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    yield rest
