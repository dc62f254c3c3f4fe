"""Bundles: sessions as one file, restored on another machine exactly, or not at all."""

import io
import random
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import ClewError, Conflict, Damaged, Denied, InvalidInput, WrongState
from clew.service import Context, call
from clew.store import Store, open_store
from support import claude
from support.captures import only

ME = "person:ada"
TOKEN = "ghp_" + "R7x2mK9qWv4LzT8bYc1NfH5sPd3JgQ6aUe0o"


def context_on(store: Store, home: Path) -> Context:
    return Context(
        store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(home), machine="box"
    )


class Origin:
    """A store with a captured session, one with files and artifacts, and forks of it; and bundles of it."""

    def __init__(self, store: Store, home: Path) -> None:
        self.home, self.store = home, store
        self.context = context_on(store, home / "clew")
        plane = Plane(Local(self.context))
        self.work = home / "work"
        (self.work / "src").mkdir(parents=True)
        (self.work / "src" / "db.py").write_text("one\n")
        (self.work / "large").write_bytes(random.Random(1).randbytes(5_000_000))
        (self.work / "empty").mkdir()
        self.main = plane.session("fix the lock", project="shop", agent="coder")
        self.main.user("why?")
        self.main.append({"kind": "message_added", "role": "assistant", "text": "long " * 20_000})
        self.keep(self.main.id)
        self.fork = self.main.fork(title="another try")
        (self.work / "src" / "db.py").write_text("two\n")
        self.fork.user("try another way")
        self.keep(self.fork.id)
        self.grandchild = self.fork.fork()
        self.main.user("after the fork")
        self.main.put("report.bin", random.Random(2).randbytes(4_500_000))
        claude.transcript(home / "native").write_bytes(claude.lines(claude.story()))
        captured = only(plane, home / "native")
        self.captured = captured.session
        call(self.context, "audit_checkpoint", {})

    def keep(self, id: str) -> None:
        call(self.context, "workspace_snapshot", {"session": id, "folder": str(self.work)})

    def bundle(self, name: str, *ids: str) -> Path:
        path = self.home / f"{name}.clew.tar.zst"
        if not path.exists():
            self.written = call(self.context, "bundle_write", {"sessions": list(ids), "file": str(path)})
        return path

    @property
    def ids(self) -> list[str]:
        return [self.main.id, self.fork.id, self.grandchild.id, self.captured]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("origin")
    with open_store(f"sqlite:///{home}/clew.db") as store:
        yield Origin(store, home)


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    return context_on(store, tmp_path / "home")


def imported(context: Context, file: Path, **given: Any) -> Any:
    return call(context, "bundle_import", {"file": str(file), **given})


def spoken(context: Context, id: str) -> list[tuple[int, str, Any]]:
    """What a session says, without what each store writes of its own."""
    events = [event for event in context.store.read(context.store.session(id)) if event.kind != "session_opened"]
    return [
        (event.seq, event.actor, msgspec.structs.replace(event.body)) for event in events if not event.body.reserved
    ]


def state(context: Context) -> list[Any]:
    """All that an import could change."""
    with context.store.database.read() as tx:
        return [context.store.last_position(), tx.run("objects_summary"), tx.run("session_keys", after=0, limit=99)]


# Whole ----------------------------------------------------------------------------------------------------------------


def test_sessions_come_back_with_their_family_files_and_proofs_and_twice_changes_nothing(
    origin: Origin, context: Context, tmp_path: Path
) -> None:
    file = origin.bundle("all", *origin.ids)
    assert (origin.written.sessions, origin.written.files, origin.written.proved) == (4, 1, 4)
    assert imported(context, file, dry_run=True).new_sessions == 0
    assert not context.store.sessions()
    done = imported(context, file)
    assert (done.sessions, done.new_sessions, done.new_files, done.proved) == (4, 4, 1, 4)
    for id in origin.ids:
        assert spoken(context, id) == spoken(origin.context, id)
        assert context.store.verify(context.store.session(id)).ok
        here, there = context.store.session(id), origin.store.session(id)
        assert (here.parent, here.upto, here.title, here.agent, here.owner) == (
            there.parent, there.upto, there.title, there.agent, there.owner,
        )  # fmt: skip
    call(context, "workspace_checkout", {"session": origin.main.id, "folder": str(tmp_path / "main")})
    call(context, "workspace_checkout", {"session": origin.grandchild.id, "folder": str(tmp_path / "fork")})
    assert (tmp_path / "main" / "src" / "db.py").read_text() == "one\n"
    assert (tmp_path / "fork" / "src" / "db.py").read_text() == "two\n"
    assert (tmp_path / "fork" / "large").read_bytes() == (origin.work / "large").read_bytes()
    assert (tmp_path / "fork" / "empty").is_dir()
    opened = call(context, "object_open", {"session": origin.main.id, "object": "report.bin"})
    assert b"".join(opened.pieces) == random.Random(2).randbytes(4_500_000)
    [native] = call(context, "export", {"session": origin.captured, "form": "native"})
    [exported] = call(origin.context, "export", {"session": origin.captured, "form": "native"})
    assert native.data == exported.data
    before = state(context)
    assert (imported(context, file).new_events, state(context)) == (0, before)
    # And on from here: what this database writes can be read, too.
    again = tmp_path / "again.clew.tar.zst"
    call(context, "bundle_write", {"sessions": origin.ids, "file": str(again)})
    assert imported(origin.context, again, dry_run=True).sessions == 4


def test_a_bundle_of_a_fork_has_what_it_reads_of_its_ancestors_and_the_rest_can_follow(
    origin: Origin, context: Context
) -> None:
    done = imported(context, origin.bundle("fork", origin.grandchild.id))
    assert done.ids == [origin.main.id, origin.fork.id, origin.grandchild.id]
    main = context.store.session(origin.main.id)
    assert "after the fork" not in str(list(context.store.read(main)))
    done = imported(context, origin.bundle("all", *origin.ids))
    assert (done.new_sessions, done.new_files) == (1, 1)
    assert "after the fork" in str(list(context.store.read(main)))
    assert spoken(context, origin.main.id) == spoken(origin.context, origin.main.id)
    key = call(origin.context, "audit_key", {}).key
    with pytest.raises(InvalidInput, match="no signed proof"):
        imported(context, origin.bundle("fork", origin.grandchild.id), keys=[key])
    assert imported(context, origin.bundle("all", *origin.ids), keys=[key]).signers == [key]


@pytest.mark.parametrize("database", ["sqlite"])
def test_a_bundle_of_its_own_store_changes_nothing_there(origin: Origin, database: str) -> None:
    before = state(origin.context)
    assert imported(origin.context, origin.bundle("all", *origin.ids)).new_events == 0
    assert state(origin.context)[1:] == before[1:]


@pytest.mark.parametrize("database", ["sqlite"])
def test_an_import_that_was_interrupted_goes_on_when_it_is_run_again(origin: Origin, context: Context) -> None:
    class Killed(BaseException):
        pass

    calls = []

    def kill(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == 2:
            raise Killed

    file = origin.bundle("all", *origin.ids)
    with pytest.raises(Killed):
        imported(msgspec.structs.replace(context, on_progress=kill), file)
    assert imported(context, file).new_sessions < 4
    for id in origin.ids:
        assert spoken(context, id) == spoken(origin.context, id)
    assert [total for _, total in calls] == [calls[0][1]] * 2


# Refused --------------------------------------------------------------------------------------------------------------


Members = list[tuple[str, bytes]]


def unpacked(file: Path) -> Members:
    data = zstandard.ZstdDecompressor().stream_reader(file.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return [(info.name, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]


def repacked(members: Members, path: Path, *, sums: bool = True, change: Callable[[Any], None] | None = None) -> Path:
    """A bundle of these members, as somebody makes it who knows how."""
    kept = [(name, data) for name, data in members if name != "SHA256SUMS"]
    if sums:
        lines = "".join(f"{sha256(data).hexdigest()}  {name}\n" for name, data in kept)
        kept.append(("SHA256SUMS", lines.encode()))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in kept:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if change:
                change(info)
            tar.addfile(info, io.BytesIO(data))
    path.write_bytes(zstandard.compress(out.getvalue()))
    return path


def edited(old: bytes, new: bytes, *, within: str = "") -> Callable[[Members], Members]:
    def edit(members: Members) -> Members:
        changed = [(name, data.replace(old, new) if within in name else data) for name, data in members]
        assert changed != members
        return changed

    return edit


def without(part: str) -> Callable[[Members], Members]:
    return lambda members: [(name, data) for name, data in members if part not in name]


def with_member(name: str, data: bytes = b"x") -> Callable[[Members], Members]:
    return lambda members: [*members, (name, data)]


HOSTILE: dict[str, tuple[Callable[[Members], Members], str]] = {
    "an event": (edited(b"try another way", b"rm -rf everything", within="events"), "event .* its digest does not"),
    "an actor": (edited(b'"actor":"person:ada"', b'"actor":"person:eve"', within="events"), "its digest does not"),
    "the owner": (edited(b'"owner": "person:ada"', b'"owner": "person:eve"'), "its owner is 'person:ada'"),
    "the agent": (edited(b'"agent": "coder"', b'"agent": "boss"'), "its agent is 'coder'"),
    "a file": (edited(b"two\n", b"2\n\n\n", within="objects/"), "other bytes than its digest"),
    "no event": (without("events-"), "are missing"),
    "no tree": (without(".names"), "is no tree of files|does not name what is in it|before it"),
    "no parent": (lambda members: members[:1] + members[-40:], "."),
    "a path out": (with_member("../../etc/passwd"), "does not belong into a bundle"),
    "another file": (with_member("objects/../x"), "does not belong into a bundle"),
    "a newer one": (edited(b'"clew_bundle": 1', b'"clew_bundle": 2'), "upgrade clew"),
    "many sessions": (edited(b'"sessions": 3', b'"sessions": 99999999'), "says that it has 99999999"),
    "a huge number": (edited(b'"last": ', b'"last": 9'), "cannot be|should have"),
    "bad json": (edited(b'"project": "shop"', b'"project": ["shop"]'), "cannot be read"),
}


@pytest.mark.parametrize("database", ["sqlite"])
@pytest.mark.parametrize("what", HOSTILE)
def test_what_somebody_changed_is_refused_with_its_place_and_nothing_is_stored(
    origin: Origin, context: Context, tmp_path: Path, what: str
) -> None:
    change, message = HOSTILE[what]
    members = unpacked(origin.bundle("small", *small(origin)))
    before = state(context)
    with pytest.raises(ClewError, match=message):
        imported(context, repacked(change(members), tmp_path / "hostile"))
    assert state(context) == before


def small(origin: Origin) -> list[str]:
    return [origin.grandchild.id]


@pytest.mark.parametrize("database", ["sqlite"])
def test_a_bundle_that_was_cut_short_or_is_no_bundle_is_refused(
    origin: Origin, context: Context, tmp_path: Path
) -> None:
    whole = origin.bundle("small", *small(origin)).read_bytes()
    middle = whole[: len(whole) // 2]
    members, before = unpacked(origin.bundle("small", *small(origin))), state(context)
    path = tmp_path / "file"
    for data in (
        middle,
        whole[:-8],
        b"",
        b"no bundle",
        middle[:-1] + bytes([middle[-1] ^ 1]) + whole[len(middle) :],
    ):
        path.write_bytes(data)
        with pytest.raises(Damaged):
            imported(context, path)
    refusals: list[tuple[Path, str]] = [
        (repacked(members, tmp_path / "1", sums=False), "without SHA256SUMS"),
        (repacked([*members[:-1], ("SHA256SUMS", b"")], tmp_path / "2"), "."),
        (
            repacked(members, tmp_path / "3", change=lambda info: setattr(info, "type", tarfile.SYMTYPE)),
            "no plain file",
        ),
        (bomb(tmp_path / "4"), "the limit is|fill a disk|claims"),
    ]
    for file, message in refusals[:1] + refusals[2:]:
        with pytest.raises(ClewError, match=message):
            imported(context, file)
    assert state(context) == before


def bomb(path: Path) -> Path:
    """A header that promises a petabyte."""
    info = tarfile.TarInfo("clew-bundle.json")
    info.size = 10**15
    path.write_bytes(zstandard.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(10_000_000)))
    return path


@pytest.mark.parametrize("database", ["sqlite"])
def test_a_session_that_is_another_one_or_was_erased_here_is_not_touched(
    origin: Origin, context: Context
) -> None:  # fmt: skip
    file = origin.bundle("small", *small(origin))
    from clew.store.log.opening import Opening

    context.store.open(Opening(project="shop", id=origin.main.id, title="mine"), actor=ME)
    before = state(context)
    with pytest.raises(Conflict, match="is another one"):
        imported(context, file)
    assert state(context) == before
    call(context, "erase", {"session": origin.main.id, "reason": "test"})
    with pytest.raises(WrongState, match="was erased here"):
        imported(context, file)


@pytest.mark.parametrize("database", ["sqlite"])
def test_a_bundle_with_secrets_has_to_be_wanted_and_the_rights_are_those_of_each_session(
    context: Context, tmp_path: Path
) -> None:
    session = Plane(Local(context)).session("t", project="shop")
    session.user(f"GITHUB_TOKEN={TOKEN}")
    given = {"sessions": [session.id], "file": str(tmp_path / "bundle")}
    with pytest.raises(Conflict, match=f"event 2 of session {session.id} holds secrets"):
        call(context, "bundle_write", given)
    assert not list(tmp_path.glob("*bundle*"))
    call(context, "bundle_write", {**given, "secrets": True})
    assert (tmp_path / "bundle").stat().st_mode & 0o777 == 0o600
    with pytest.raises(Conflict, match="exists"):
        call(context, "bundle_write", {**given, "secrets": True})
    server = msgspec.structs.replace(context, answers_leave_machine=True)
    with pytest.raises(Denied, match="do not leave a server"):
        call(server, "bundle_open", {"session": session.id, "secrets": True})
    with pytest.raises(Conflict, match="holds secrets"):
        call(server, "bundle_open", {"session": session.id})
    reader = Context(store=context.store, unrestricted=context.store, principal="person:eve", grants=())
    with pytest.raises(ClewError):
        call(reader, "bundle_write", {**given, "file": str(tmp_path / "other")})
    with pytest.raises(ClewError):
        call(reader, "bundle_import", {"file": str(tmp_path / "bundle")})
