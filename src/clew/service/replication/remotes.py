"""Remotes: the user's servers, what is shared with each, and the API keys, each in a file of its own.

They are in the clew home and not in the log: they belong to the user and are never sent anywhere.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from clew.model.errors import Conflict, InvalidInput, NotFound, Unavailable
from clew.model.ids import ALPHABET
from clew.service.handover.program_files import replace
from clew.service.kernel.context import Context
from clew.service.replication.server import LOOPBACK, OpenServer, Server, checked_url
from clew.store.durable_folders import create_private, make_private

FOLDER, KEYS = "remotes", "keys"
NAMED = frozenset(ALPHABET + "ilou-_")
LONGEST_NAME = 40


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal by a server: the reason and the error code."""

    why: str
    code: str = ""


class Setting(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A server: its address, our principal there, what is shared with it, and what it refused."""

    name: str
    url: str
    who: str = ""
    server: str = ""
    """The id of its store, which stays the same at another address."""
    projects: list[str] = []
    sessions: list[str] = []
    """Sessions pushed by id, even of projects that are not shared."""
    refused: dict[str, Refused] = {}
    with_files: dict[str, list[str]] = {}
    """By project, sessions whose snapshots both stores have: what they name need not travel again."""


def checked_name(name: str) -> str:
    if not name or len(name) > LONGEST_NAME or not set(name) <= NAMED or name.startswith("-"):
        raise InvalidInput(
            f"{name[:60]!r} is not a valid name for a remote; use a short word of lower-case letters, digits and -"
        )
    return name


def all_of(home: Path) -> list[Setting]:
    """Every remote, by name."""
    folder = home / FOLDER
    return [_read(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []


def named(home: Path, name: str = "") -> Setting:
    """The remote of this name, or the only one."""
    settings = all_of(home)
    chosen = [setting for setting in settings if setting.name == name] if name else settings
    if len(chosen) == 1:
        return chosen[0]
    if not settings:
        raise NotFound("no remote is set", missing="remote")
    names = ", ".join(setting.name for setting in settings)
    if not name:
        raise InvalidInput(f"there are several remotes; name one of them: {names}")
    raise NotFound(f"no remote {name!r}; there are: {names}")


def _read(path: Path) -> Setting:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Setting)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"{path} cannot be read ({error}); remove it and add the remote again") from None


def save(home: Path, setting: Setting) -> None:
    """Write a remote's file atomically."""
    _folder(home / FOLDER)
    replace(home / FOLDER / f"{checked_name(setting.name)}.json", msgspec.json.format(msgspec.json.encode(setting)))


@contextmanager
def changing(home: Path, name: str) -> Iterator[Setting]:
    """Read a remote, let the caller change it, and save it, under a lock against other processes."""
    import fcntl

    _folder(home / FOLDER)
    with open(home / FOLDER / "lock", "a", opener=create_private) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        setting = named(home, name)
        yield setting
        save(home, setting)


def remove(home: Path, name: str) -> None:
    """Delete a remote and its key; what was pushed stays on the server."""
    (home / FOLDER / f"{checked_name(name)}.json").unlink(missing_ok=True)
    (home / KEYS / name).unlink(missing_ok=True)


def add(home: Path, name: str, url: str, key: str, open_server: OpenServer) -> Setting:
    """Add a server, if it takes the key, or replace the key of one at the same address."""
    address = checked_url(url)
    by_name = {setting.name: setting for setting in all_of(home)}
    setting = by_name.get(checked_name(name), Setting(name=name, url=address))
    if setting.url != address:
        raise Conflict(f"{name} is {setting.url} already; take another name, or remove {name} first")
    if not key:
        raise InvalidInput("a server needs an API key; ask its owner for one, and enter it here")
    with closing(open_server(address, key)) as server:
        setting.who = str(server.call("whoami").principal)
        setting.server = server.call("sync_standing").store
    save_key(home, name, key)
    save(home, setting)
    return setting


def share(home: Path, name: str, project: str, projects: Collection[str]) -> Setting:
    """Share a project of this store with a server."""
    if project not in projects:
        some = ", ".join(sorted(projects)[:10]) or "none yet"
        raise NotFound(f"no project {project[:100]!r} on this machine; there are: {some}", project=project)
    with changing(home, named(home, name).name) as setting:
        setting.projects = sorted({*setting.projects, project})
    return setting


def unshare(home: Path, name: str, what: str) -> Setting:
    """Stop sharing a project, or a session by its id."""
    with changing(home, named(home, name).name) as setting:
        is_project = what in setting.projects
        unshared = [id for id in setting.sessions if id.startswith(what) and not is_project]
        if not is_project and not unshared:
            shared = ", ".join([*setting.projects, *setting.sessions]) or "nothing"
            raise NotFound(f"{what[:100]!r} is not shared with {setting.name}; shared are: {shared}", project=what)
        setting.projects = [name for name in setting.projects if name != what]
        setting.sessions = [id for id in setting.sessions if id not in unshared]
    return setting


def save_key(home: Path, name: str, key: str) -> None:
    """Write a key to a file that only its owner can read."""
    _folder(home / KEYS)
    replace(home / KEYS / checked_name(name), key.encode() + b"\n")


def key_of(home: Path, name: str) -> str:
    """The key of a remote: CLEW_KEY, or the one in its file."""
    if key := os.environ.get("CLEW_KEY", "").strip():
        return key
    path = home / KEYS / name
    try:
        if path.stat().st_mode & 0o077:
            raise InvalidInput(f"{path} can be read by other users; make it private: chmod 600 {path}")
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(
            f"the key of {name} cannot be read from {path}; add the remote again, or set CLEW_KEY"
        ) from error


def key_for(home: Path, url: str) -> str:
    """The key for an address: CLEW_KEY, or that of the remote with this address; a loopback address needs none."""
    if key := os.environ.get("CLEW_KEY", "").strip():
        return key
    for setting in all_of(home):
        if setting.url == url:
            return key_of(home, setting.name)
    from urllib.parse import urlsplit

    if urlsplit(url).hostname in LOOPBACK:
        return ""
    raise InvalidInput(f"no key for {url}; `clew remote add {url}` asks for one and keeps it, or set CLEW_KEY")


def open_server(context: Context, setting: Setting) -> Server:
    """Open the server of a remote."""
    if context.open_server is None:
        raise Unavailable("this process cannot open other servers; pull and push on your own machine")
    return context.open_server(setting.url, key_of(Path(context.home), setting.name))


def _folder(path: Path) -> None:
    make_private(path)
