"""Find the project that a captured session belongs to: its repository, or the folder it worked in.

The answer comes from the working directory, so it is the same for every program; with a remote, for every machine. Two
repositories or folders never get one project by themselves. What earlier captures stored about a folder holds when it
is gone.
"""

import os
import re
from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import unquote, urlparse

import msgspec

from clew.model.repository import address_of, project_names
from clew.runtimes.contract import Identity
from clew.service.capture.repositories import Repository, read_small, real_folder, repository_of
from clew.store import Store
from clew.store.project_places import (
    WITHOUT_FOLDER,
    CapturedFrom,
    KnownPlace,
    Place,
    began_in,
    find_places,
    places_of,
    places_with_mark,
    settle,
)
from clew.store.projects import current_name, names_now

# A program's own worktrees, which it removes when it is done.
_OWN_WORKTREE = re.compile(r"(/.+?)/\.(?:claude|cursor|codex)/worktrees/.*", re.DOTALL)
DEFAULT = "default"
# How much of a JSON file is read to find the folder that it names.
LONGEST_ABOUT = 256 * 1024


_DecodedT = TypeVar("_DecodedT", bound=msgspec.Struct)


class Whereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session worked, as far as is known: a folder, the repository it is in, and the address of its remote.

    `real` is the folder without symbolic links, and empty if it does not exist here. `root` identifies the repository
    or the folder on this machine; the project is named after `named`.
    """

    folder: str
    real: str
    root: str
    named: str
    address: str = ""
    repository: Repository | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The project of a session, and what has to be stored about where it worked.

    `is_new`: the project is made with the session. `is_guess`: only the name of a folder of the program's own tells
    where it worked.
    """

    project: str
    address: str = ""
    captured_from: CapturedFrom | None = None
    is_new: bool = False
    is_guess: bool = False


class _Began(msgspec.Struct):
    machine: str = ""
    repository: str = ""


class _Attached(msgspec.Struct):
    cwd: str = ""


class ProjectFinder:
    """Finds projects for one capture; each folder is looked at once. `store` is the whole log."""

    def __init__(self, store: Store, machine: str) -> None:
        self._store = store
        self._machine = machine
        self._found: dict[tuple[str, str, str], Found] = {}
        # What this capture makes and has not committed yet: the names by the place that identifies each project.
        self._made: dict[bytes, str] = {}
        self._names: dict[str, str] | None = None

    def find(self, identity: Identity, runtime: str, cwd: str) -> Found:
        """The project of a session that worked in `cwd`, or about which its file says something else."""
        folder = cwd or identity.folder or _folder_in(identity.folder_file)
        key = (folder, identity.repository, "" if folder else f"{runtime}:{identity.project}")
        if key not in self._found:
            self._found[key] = self._find(folder, identity, runtime)
        return self._found[key]

    def of_folder(self, folder: str) -> Found:
        """The project of a folder."""
        return self._of_folder(_whereabouts(folder, ""))

    def of_copy(self, name: str, metadata: str) -> str:
        """The project of a session that comes from another store, where its project has this name.

        It is the one of its repository if that is known here, and never one of another repository. Nothing is stored
        about places: another store does not say what is captured here.
        """
        address = _decoded(metadata, _Began()).repository
        if known := find_places(self._store, [Place(place=address)]) if address else {}:
            return next(iter(known.values())).project
        now = current_name(self._store, name)
        if not address or all(place.machine for place in places_of(self._store, now)):
            return now
        return self._new(Whereabouts(folder="", real="", root="", named=address, address=address)).project

    def settle(self, found: Found) -> Found:
        """What a session is opened with. The next one of this folder has less to store."""
        if found.captured_from is not None and self._store.is_remote:
            # A commit of many sessions could wait for another one, and that for this.
            found = msgspec.structs.replace(
                found, project=settle(self._store, found.captured_from), captured_from=None
            )  # fmt: skip
        of_next = found.captured_from
        if of_next is not None:
            # A project that is made with the session before goes by its place: another capture can take the name first.
            of_next = msgspec.structs.replace(of_next, places=of_next.places[:1]) if found.is_new else None
        settled = msgspec.structs.replace(found, captured_from=of_next)
        self._found = {key: settled if other is found else other for key, other in self._found.items()}
        return found

    def _find(self, folder: str, identity: Identity, runtime: str) -> Found:
        name = identity.project
        if name and identity.is_chosen:
            return Found(project=current_name(self._store, name))
        if not folder and re.fullmatch(r"-[A-Za-z0-9-]+", name):
            folder = folder_behind(name)
        if folder:
            return self._of_folder(_whereabouts(folder, identity.repository))
        if address := address_of(identity.repository):
            return self._of_folder(Whereabouts(folder="", real="", root="", named=address, address=address))
        if name:
            root = f"{runtime}:{name}"
            found = self._of_folder(Whereabouts(folder=root, real="", root=root, named=name))
            return msgspec.structs.replace(found, is_guess=True)
        return Found(project=DEFAULT)

    def _of_folder(self, where: Whereabouts) -> Found:
        known = find_places(self._store, self._looked_up(where))
        if chosen := next((place for place in self._above(where, known) if place.is_set), None):
            return Found(project=chosen.project, address=where.address)
        by_address = known.get(Place(place=where.address).id) if where.address else None
        remembered = self._remembered(where, known)
        if by_address is None and remembered is not None and not self._is_same(where, remembered):
            remembered = None
        place = by_address or remembered or self._moved(where)
        if place is None:
            return self._new(where)
        is_inside = place is remembered and place.id != self._folder(where.root).id
        places = tuple(self._unstored(where, known, place.project_key, is_inside=is_inside))
        captured_from = CapturedFrom(places=places, project_key=place.project_key) if places else None
        return Found(project=place.project, address=where.address, captured_from=captured_from)

    def _looked_up(self, where: Whereabouts) -> Iterator[Place]:
        if where.address:
            yield Place(place=where.address)
        for folder in dict.fromkeys((where.root, where.folder, *_upwards(where.folder), *_upwards(where.real))):
            if folder:
                yield self._folder(folder)

    def _folder(self, folder: str) -> Place:
        return Place(machine=self._machine, place=folder)

    def _above(self, where: Whereabouts, known: dict[bytes, KnownPlace]) -> Iterator[KnownPlace]:
        """The stored places that the folder is in, the deepest first."""
        for folder in dict.fromkeys((*_upwards(where.real), *_upwards(where.folder))):
            if place := known.get(self._folder(folder).id):
                yield place

    def _remembered(self, where: Whereabouts, known: dict[bytes, KnownPlace]) -> KnownPlace | None:
        """What is stored about the folder; if it is gone, about the repository that it was in."""
        if place := known.get(self._folder(where.root).id):
            return place
        if where.real:
            return None
        return next((place for place in self._above(where, known) if place.is_root), None)

    def _is_same(self, where: Whereabouts, stored: KnownPlace) -> bool:
        """Whether a folder that has an address nobody knows is still the repository that was stored for it."""
        if not where.address:
            return True
        if where.repository and where.repository.mark and where.repository.mark == stored.mark:
            return True  # Its remote was changed.
        return not self._has_address(stored)

    def _has_address(self, stored: KnownPlace) -> bool:
        return any(not place.machine for place in places_of(self._store, stored.project))

    def _moved(self, where: Whereabouts) -> KnownPlace | None:
        """The repository that began like this one and is not where it was."""
        mark = where.repository.mark if where.repository else ""
        for place in places_with_mark(self._store, self._machine, mark):
            if not os.path.lexists(place.place) and not (where.address and self._has_address(place)):
                return place
        return None

    def _unstored(
        self, where: Whereabouts, known: dict[bytes, KnownPlace], project: int, *, is_inside: bool
    ) -> Iterator[Place]:
        """The places that are not stored yet, or not as they are now."""
        for place in self._places(where):
            if is_inside and place.machine:
                place = msgspec.structs.replace(place, is_inside=True)
            stored = known.get(place.id)
            is_stored = stored is not None and stored.project_key == project and stored.is_root >= place.is_root
            if not is_stored or (stored is not None and place.mark not in ("", stored.mark)):
                yield place

    def _places(self, where: Whereabouts) -> Iterator[Place]:
        """Where a session worked, the place that identifies it first."""
        repository = where.repository
        if where.address:
            yield Place(place=where.address)
        if where.root:
            mark = repository.mark if repository else ""
            yield Place(machine=self._machine, place=where.root, mark=mark, is_root=repository is not None)
        for folder in dict.fromkeys((where.real, where.folder)):
            if folder and folder != where.root:
                yield Place(machine=self._machine, place=folder, is_inside=True)

    def _new(self, where: Whereabouts) -> Found:
        """A project of its own, with the first name that is free."""
        places = tuple(self._places(where))
        names = project_names(where.named)
        name = self._made.get(places[0].id) or next(name for name in names if self._is_free(name, where))
        self._made[places[0].id] = name
        unclaimed = name if name in self._taken() else ""
        captured_from = CapturedFrom(places=places, name=name, named=where.named, unclaimed=unclaimed)
        return Found(project=name, address=where.address, captured_from=captured_from, is_new=True)

    def _is_free(self, name: str, where: Whereabouts) -> bool:
        if name in WITHOUT_FOLDER or name in self._made.values():
            return False
        now = self._taken().get(name)
        return now is None or (now == name and self._may_take_over(name, where))

    def _taken(self) -> dict[str, str]:
        """The names that projects have or had, as they were when this capture began to look."""
        if self._names is None:
            self._names = names_now(self._store)
        return self._names

    def _may_take_over(self, name: str, where: Whereabouts) -> bool:
        """Whether a project from before places were stored, or that was made by name, can be the one of this place.

        It can if one of its sessions worked here, or if none of them is known to have worked anywhere.
        """
        if places_of(self._store, name):
            return False
        is_known = False
        for metadata, attached in began_in(self._store, name):
            about = _decoded(metadata, _Began())
            cwd = _decoded(attached or "", _Attached()).cwd
            if about.repository and about.repository == where.address:
                return True
            if cwd and about.machine == self._machine and _is_in(cwd, where):
                return True
            is_known = is_known or bool(cwd or about.repository)
        return not is_known


def _whereabouts(folder: str, url: str) -> Whereabouts:
    real = real_folder(folder)
    if not real and (own := _OWN_WORKTREE.fullmatch(folder)):
        folder, real = own[1], real_folder(own[1])
    repository = repository_of(real) if real else None
    if repository is not None:
        root, address = repository.root, repository.address
    else:
        root, address = real or folder.rstrip("/") or "/", "" if real else address_of(url)
    return Whereabouts(
        folder=folder, real=real, root=root, named=address or root, address=address, repository=repository
    )


def _folder_in(path: str) -> str:
    """The folder that a small file of a program names; empty if there is no such file."""
    text = read_small(path, LONGEST_ABOUT).strip() if path else ""
    if not text.startswith("{"):
        return text
    try:
        about = msgspec.json.decode(text, type=_FolderNamed)
    except (ValueError, RecursionError):
        return ""
    folder = about.cwd or about.info.cwd or about.folder
    return unquote(urlparse(folder).path) if folder.startswith("file://") else folder


class _Info(msgspec.Struct):
    cwd: str = ""


class _FolderNamed(msgspec.Struct):
    """The members by which programs name a folder in a JSON file: Kiro, Grok, and VS Code with a URL."""

    cwd: str = ""
    folder: str = ""
    info: _Info = msgspec.field(default_factory=_Info)


def _upwards(folder: str) -> list[str]:
    """A folder and all above it."""
    folders = [folder] if folder else []
    while folders and (above := os.path.dirname(folders[-1])) not in ("", folders[-1]):
        folders.append(above)
    return folders[:100]


def _is_in(cwd: str, where: Whereabouts) -> bool:
    return cwd in (where.root, where.real, where.folder) or (
        where.repository is not None and cwd.startswith(where.root.rstrip("/") + "/")
    )


def _decoded(text: str, default: _DecodedT) -> _DecodedT:
    try:
        return msgspec.json.decode(text, type=type(default)) if text else default
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return default


def folder_behind(name: str) -> str:
    """The folder whose path was written with `-` for every separator and odd character; empty unless there is just one.

    Such a name says little: every folder with a name in Chinese looks like every other.
    """
    folders = list(_folders_behind("/", name[1:]))
    return folders[0] if len(folders) == 1 else ""


def _folders_behind(root: str, rest: str) -> Iterator[str]:
    try:
        names = os.listdir(root)
    except OSError:
        return
    for name in names:
        written = re.sub("[^a-zA-Z0-9]", "-", name)
        path = os.path.join(root, name)
        if rest == written:
            yield path
        elif rest.startswith(written + "-") and os.path.isdir(path):
            yield from _folders_behind(path, rest[len(written) + 1 :])
