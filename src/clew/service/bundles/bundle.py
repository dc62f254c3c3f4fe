"""The operations on bundles: write one of some sessions, and import one."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import public_key
from clew.model.errors import Conflict, Denied, InvalidInput, NotFound
from clew.model.session import Session
from clew.service.bundles.content import chosen_sessions
from clew.service.bundles.restoring import Imported, plan, restore
from clew.service.bundles.values import SUFFIX
from clew.service.bundles.writing import Written, bundle_pieces
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.durable_folders import create_private, sync

Secrets = Annotated[
    bool, msgspec.Meta(description="Also when there are secrets in it; without, the first one ends it.")
]


class BundleWritten(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that was written, and what is in it."""

    file: str
    bytes: int
    sessions: int = 0
    events: int = 0
    objects: int = 0
    files: int = 0
    proved: int = 0
    """How many sessions a signed checkpoint proves."""


class BundleImported(Imported, kw_only=True):
    """What was in a bundle, and how much of it is new here."""

    dry_run: bool = False


class OpenedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that is being written: the name of its file, and its bytes piece by piece."""

    name: str
    pieces: Iterator[bytes]


@operation(right=Right.EXPORT, filters_by_reach=True, audited=True, hidden=True)
def bundle_write(
    context: Context,
    sessions: Annotated[list[str], msgspec.Meta(description="The sessions; what they were forked from comes along.")],
    *,
    file: Annotated[str, msgspec.Meta(description="A new file for the bundle.")],
    secrets: Secrets = False,
) -> BundleWritten:
    """Write sessions into one file, with their files, artifacts, native files and proofs, for another machine."""
    chosen = chosen_sessions(context, sessions)
    written = Written()
    stored = written_bundle(file, bundle_pieces(context, chosen, written, secrets=secrets))
    return msgspec.structs.replace(
        stored, sessions=written.sessions, events=written.events, objects=written.objects, files=written.files,
        proved=written.proofs,
    )  # fmt: skip


def written_bundle(file: str, pieces: Iterator[bytes]) -> BundleWritten:
    """Write the bytes of a bundle into a new file, which has its name only when it is whole."""
    path = Path(file).absolute()
    if path.exists():
        raise Conflict(f"{path} exists and was not changed; name another file")
    try:
        size = _write(path, pieces)
    except FileExistsError:
        raise Conflict(f"{path} exists and was not changed; name another file") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error
    return BundleWritten(file=str(path), bytes=size)


def _write(path: Path, pieces: Iterator[bytes]) -> int:
    size = 0
    with NamedTemporaryFile(dir=path.parent, prefix=".clew-bundle-", delete=False) as file:  # For its user alone.
        try:
            for piece in pieces:
                size += file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            with open(path, "xb", opener=create_private):
                pass
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    sync(path.parent)
    return size


@operation(right=Right.EXPORT, audited=True, hidden=True)
def bundle_open(context: Context, session: Session, *, secrets: Secrets = False) -> OpenedBundle:
    """Read a session as a bundle, as a stream; a server gives none with secrets in it."""
    if secrets and context.answers_leave_machine:
        raise Denied("secrets do not leave a server; make this bundle where the store is")
    chosen = chosen_sessions(context, [session.id])
    if context.answers_leave_machine:
        # Nothing was sent yet that a refusal would have to take back.
        for _ in bundle_pieces(context, chosen, Written(), secrets=False):
            pass
    pieces = bundle_pieces(context, chosen, Written(), secrets=secrets)
    return OpenedBundle(name=f"{session.id}{SUFFIX}", pieces=pieces)


@operation(right=Right.APPEND, filters_by_reach=True, audited=True, hidden=True, repeatable=True)
def bundle_import(
    context: Context,
    file: Annotated[str, msgspec.Meta(description="A bundle.")],
    *,
    keys: Annotated[list[str], msgspec.Meta(description="Public keys; one of them has to have signed each session.")]
    | None = None,
    dry_run: Annotated[bool, msgspec.Meta(description="Only verify it.")] = False,
) -> BundleImported:
    """Verify a bundle, and restore all that is in it and not here yet; one that is not whole changes nothing."""
    trusted = [public_key(key) for key in keys or ()]
    try:
        # Opened once, so that what is restored is the file that was verified.
        with open(file, "rb") as opened:
            planned = plan(context, opened, trusted)
            if not dry_run:
                opened.seek(0)
                restore(context, opened, planned, trusted)
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}", path=file) from None
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from error
    return BundleImported(**msgspec.structs.asdict(planned), dry_run=dry_run)
