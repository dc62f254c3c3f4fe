"""Remotes: the servers a person has set, what is shared with each, and the keys, each in a file of its own.

Kept in the clew home and not in the log: they are a person's, and nothing of them is ever sent anywhere.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from clew.model.errors import InvalidInput, NotFound, Unavailable
from clew.model.ids import ALPHABET
from clew.service.handover.program_files import replace
from clew.service.kernel.context import Context
from clew.service.replication.server import LOOPBACK, Server

FOLDER, KEYS = "remotes", "keys"
NAMED = frozenset(ALPHABET + "ilou-_")
LONGEST_NAME = 40


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """What a server would not take, and why."""

    why: str
    code: str = ""


class Setting(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A server: where it is, who we are there, what is shared with it, and what it refused so far."""

    name: str
    url: str
    who: str = ""
    server: str = ""
    """The name of its store, which stays when it moves."""
    projects: list[str] = []
    sessions: list[str] = []
    """Asked for by id, whatever is shared."""
    refused: dict[str, Refused] = {}


def checked_name(name: str) -> str:
    if not name or len(name) > LONGEST_NAME or not set(name) <= NAMED or name.startswith("-"):
        raise InvalidInput(f"{name[:60]!r} cannot name a remote; use a short word of small letters, digits and -")
    return name


def all_of(home: Path) -> list[Setting]:
    """Every remote, by name."""
    folder = home / FOLDER
    return [_read(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []


def named(home: Path, name: str = "") -> Setting:
    """The remote of this name, or the only one."""
    found = all_of(home)
    chosen = [one for one in found if one.name == name] if name else found
    if len(chosen) == 1:
        return chosen[0]
    if not found:
        raise NotFound("no remote is set", missing="remote")
    names = ", ".join(one.name for one in found)
    if not name:
        raise InvalidInput(f"there are several remotes; name one of them: {names}")
    raise NotFound(f"no remote {name!r}; there are: {names}")


def _read(path: Path) -> Setting:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Setting)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"{path} cannot be read ({error}); remove it and add the remote again") from None


def save(home: Path, setting: Setting) -> None:
    """Keep a remote, whole or as it was before."""
    _folder(home / FOLDER)
    replace(home / FOLDER / f"{checked_name(setting.name)}.json", msgspec.json.format(msgspec.json.encode(setting)))


@contextmanager
def changing(home: Path, name: str) -> Iterator[Setting]:
    """A remote to be changed, as it is in the file now: somebody else may have changed it meanwhile."""
    import fcntl

    _folder(home / FOLDER)
    with open(home / FOLDER / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        setting = named(home, name)
        yield setting
        save(home, setting)


def remove(home: Path, name: str) -> None:
    """Forget a remote and its key; what was pushed stays where it is."""
    (home / FOLDER / f"{checked_name(name)}.json").unlink(missing_ok=True)
    (home / KEYS / name).unlink(missing_ok=True)


def save_key(home: Path, name: str, key: str) -> None:
    """Keep a key for its owner's eyes alone."""
    _folder(home / KEYS)
    replace(home / KEYS / checked_name(name), key.encode() + b"\n")


def key_of(home: Path, name: str) -> str:
    """The key of a remote: CLEW_KEY, or the one in its file."""
    if given := os.environ.get("CLEW_KEY", "").strip():
        return given
    path = home / KEYS / name
    try:
        if path.stat().st_mode & 0o077:
            raise InvalidInput(f"{path} can be read by others; make it yours alone: chmod 600 {path}")
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(
            f"the key of {name} cannot be read from {path}; add the remote again, or set CLEW_KEY"
        ) from error


def key_for(home: Path, url: str) -> str:
    """The key for an address: CLEW_KEY, or that of the remote which is there. One's own machine needs none."""
    if given := os.environ.get("CLEW_KEY", "").strip():
        return given
    for one in all_of(home):
        if one.url == url:
            return key_of(home, one.name)
    from urllib.parse import urlsplit

    if urlsplit(url).hostname in LOOPBACK:
        return ""
    raise InvalidInput(f"no key for {url}; `clew remote add {url}` asks for one and keeps it, or set CLEW_KEY")


def open_server(context: Context, setting: Setting) -> Server:
    """The server of a remote, ready to be asked."""
    if context.open_server is None:
        raise Unavailable("this process opens no other servers; pull and push on your own machine")
    return context.open_server(setting.url, key_of(Path(context.home), setting.name))


def _folder(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
