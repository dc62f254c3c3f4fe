"""Files written into other programs' folders: whole or not at all, private, and never outside the folder meant."""

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from clew.model.errors import Conflict, InvalidInput, StoreError
from clew.store.durable_folders import make_private


def inside(root: Path, relative: str) -> Path:
    """A path below a root; a relative part that leads out of it is refused."""
    base = Path(os.path.realpath(root))
    path = Path(os.path.realpath(base / relative))
    if "\0" in relative or os.path.isabs(relative) or not path.is_relative_to(base) or path == base:
        raise InvalidInput(f"{relative!r} would be written outside {root}; nothing was written")
    return path


def read(root: Path, relative: str) -> bytes | None:
    """A file below a root; None when there is none."""
    try:
        return inside(root, relative).read_bytes()
    except OSError:
        return None


def write_new(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a new file; an existing one is refused."""
    refuse_if_there(path)
    _replace(path, pieces, mode=0o600)


def refuse_if_there(path: Path) -> None:
    if path.exists():
        raise Conflict(f"{path} is there already and was left alone")


def replace(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put bytes under a name in one step."""
    _replace(path, [data], mode=mode)


def _replace(path: Path, pieces: Iterable[bytes], *, mode: int) -> None:
    try:
        make_private(path.parent)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:40]}.", delete=False) as file:
            try:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(file.name, mode)
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; check its permissions and free disk") from error
