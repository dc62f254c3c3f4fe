"""Rollouts that Codex packs when they are old and unpacks to go on: one session all the while, and its exact bytes."""

import json
from pathlib import Path

import pytest
import zstandard

from clew.client import Plane
from clew.model.errors import InvalidInput, WrongState
from clew.model.retention import DAY_US, Policy
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.log.feed import session_by_key
from clew.store.log.retention import apply_policies, set_policy
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import FileUpdate
from clew.store.native_files.stored_bytes import load_bytes
from clew.store.native_files.updates import apply_updates
from support.captures import capture, events, native, only, said

ROLLOUT = Path(__file__).parents[1] / "runtimes/fixtures/codex/tools.jsonl"


def pack(data: bytes) -> bytes:
    """Packed as Codex does: as a stream, which does not tell its size."""
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return packer.compress(data) + packer.flush()


def prompt(text: str) -> bytes:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return (
        json.dumps({"timestamp": "2026-11-16T12:00:00.000Z", "type": "response_item", "payload": item}).encode() + b"\n"
    )


@pytest.fixture
def plain(person: Path) -> Path:
    """Where the rollout is when it is not packed."""
    path = person / ".codex/sessions/2026/11/16/rollout-2026-11-16T10-00-00-01a1e3cd-643e-7fa2-8e42-5173f1641ad2.jsonl"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def packed(plain: Path) -> Path:
    return plain.with_name(plain.name + ".zst")


def test_a_packed_rollout_is_read_and_its_exact_bytes_come_back(plane: Plane, person: Path, packed: Path) -> None:
    data = ROLLOUT.read_bytes()
    packed.write_bytes(pack(data))
    report = only(plane, person, "codex")
    assert (report.status, report.path, report.note) == ("new", str(packed), "")
    assert report.records == len(data.splitlines())
    assert native(plane, report.session) == packed.read_bytes()
    again = only(plane, person, "codex")
    assert (again.status, again.session, again.records) == ("same", report.session, report.records)
    # With its secrets masked it is the lines, in which they can be.
    [file] = plane.client.call("export", session=report.session, form="native")
    assert (file.name, file.data) == (packed.name.removesuffix(".zst"), data)


def test_a_rollout_stays_one_session_when_it_is_packed_and_unpacked(
    plane: Plane, person: Path, plain: Path, packed: Path
) -> None:
    data = ROLLOUT.read_bytes()
    plain.write_bytes(data)
    session = only(plane, person, "codex").session
    before = events(plane, session)
    packed.write_bytes(pack(data))
    both = {report.path: report for report in capture(plane, person, "codex")}
    assert both[str(packed)].note == "the unpacked file is there as well, and is captured instead"
    plain.unlink()
    for status in ("same", "same"):
        report = only(plane, person, "codex")
        assert (report.status, report.session) == (status, session)
    assert events(plane, session) == before
    assert native(plane, session) == packed.read_bytes()
    # Codex unpacks it to go on, and packs it again when it is old.
    packed.unlink()
    plain.write_bytes(data + prompt("more"))
    report = only(plane, person, "codex")
    assert (report.status, report.session, said(plane, session)[-1]) == ("grown", session, "more")
    assert native(plane, session) == plain.read_bytes()
    archived = person / ".codex/archived_sessions" / packed.name
    archived.parent.mkdir()
    archived.write_bytes(pack(plain.read_bytes()))
    plain.unlink()
    assert only(plane, person, "codex").session == session
    assert native(plane, session) == archived.read_bytes()
    assert [session.id for session in plane.sessions()] == [session]


def test_a_packed_rollout_that_was_first_seen_so_goes_on_unpacked(
    plane: Plane, person: Path, plain: Path, packed: Path
) -> None:
    data = ROLLOUT.read_bytes()
    packed.write_bytes(pack(data))
    session = only(plane, person, "codex").session
    packed.unlink()
    plain.write_bytes(data + prompt("more"))
    assert only(plane, person, "codex").session == session
    assert said(plane, session)[-1] == "more"
    assert sum(event.kind == "message_added" for event in events(plane, session)) == len(said(plane, session))


def test_what_is_left_of_a_damaged_one_is_read_and_what_is_none_is_reported(
    plane: Plane, person: Path, packed: Path
) -> None:
    data = ROLLOUT.read_bytes() + b"".join(prompt(f"{i} {i * 2654435761 % 2**32}") for i in range(20_000))
    packed.write_bytes(pack(data)[:-5000])
    report = only(plane, person, "codex")
    assert "damaged" in report.note
    assert report.records > len(ROLLOUT.read_bytes().splitlines())
    packed.write_bytes(pack(data))
    assert only(plane, person, "codex").records == len(data.splitlines())
    packed.with_name("rollout-2.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd nonsense")
    packed.with_name("rollout-3.jsonl.zst").write_bytes(b"")
    errors = [report.error for report in capture(plane, person, "codex") if report.error]
    assert [error.startswith("it was not packed with zstd") for error in errors] == [True, True]


def test_a_packed_file_keeps_no_secret_of_a_project_that_masks(plane: Plane, person: Path, packed: Path) -> None:
    packed.write_bytes(pack(ROLLOUT.read_bytes()))
    plane.client.call("setting_set", name="secrets", value="mask")
    session = only(plane, person, "codex").session
    assert native(plane, session) != packed.read_bytes()
    assert only(plane, person, "codex").status == "same"


def test_packed_bytes_are_not_listed_for_other_machines(plane: Plane, person: Path, packed: Path) -> None:
    packed.write_bytes(pack(ROLLOUT.read_bytes()))
    session = only(plane, person, "codex").session
    assert [one.path for one in plane.client.call("originals", session=session)] == [str(packed).removesuffix(".zst")]


def test_a_packed_rollout_is_resumed_where_it_is(
    plane: Plane, person: Path, packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    packed.write_bytes(pack(ROLLOUT.read_bytes()))
    session = only(plane, person, "codex").session
    made = plane.client.call("materialise", session=session, runtime="codex")
    assert (made.session, made.files) == (session, [str(packed)])
    assert list(packed.parent.iterdir()) == [packed]


# What was removed stays removed ---------------------------------------------------------------------------------------

GONE = "words-that-are-gone"


def archive(plane: Plane, session: str) -> None:
    plane.client.call("close", session=session)
    plane.client.call("archive", session=session)


def is_held(store: Store) -> bool:
    """Whether any native file that is kept still says it."""
    with store.database.read() as tx:
        keys = [row[0] for row in tx.run("session_keys", after=0, limit=1000)]
    for one in (one for key in keys for one in files_of(store, session_by_key(store, key))):
        data = load_bytes(store, one)
        if one.path.endswith(".zst") and data:
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        if GONE.encode() in data:
            return True
    return False


def test_what_was_pruned_does_not_come_back_packed(
    plane: Plane, store: Store, person: Path, plain: Path, packed: Path
) -> None:
    plain.write_bytes(ROLLOUT.read_bytes() + prompt(GONE))
    session = store.session(only(plane, person, "codex").session)
    set_policy(store, Policy(project=session.project, keep_days=1))
    assert apply_policies(store, actor="person:ada", now=store.head(session).at + 2 * DAY_US)
    packed.write_bytes(pack(plain.read_bytes()))
    plain.unlink()
    only(plane, person, "codex")
    assert not is_held(store)


def test_what_was_erased_does_not_come_back_packed(
    plane: Plane, store: Store, person: Path, plain: Path, packed: Path
) -> None:
    plain.write_bytes(ROLLOUT.read_bytes())
    archive(plane, only(plane, person, "codex").session)
    plain.write_bytes(ROLLOUT.read_bytes() + prompt(GONE))
    fork = only(plane, person, "codex").session
    plane.client.call("erase", session=fork)
    packed.write_bytes(pack(plain.read_bytes()))
    plain.unlink()
    assert only(plane, person, "codex").status == "erased"
    assert not is_held(store)


def test_what_a_fork_packed_goes_with_the_fork(
    plane: Plane, store: Store, person: Path, plain: Path, packed: Path
) -> None:
    packed.write_bytes(pack(ROLLOUT.read_bytes()))
    archive(plane, only(plane, person, "codex").session)
    packed.unlink()
    plain.write_bytes(ROLLOUT.read_bytes() + prompt(GONE))
    fork = only(plane, person, "codex").session
    plain.unlink()
    packed.write_bytes(pack(ROLLOUT.read_bytes() + prompt(GONE)))
    assert only(plane, person, "codex").session == fork
    assert is_held(store)
    plane.client.call("erase", session=fork)
    assert not is_held(store)


def test_a_session_that_was_erased_takes_no_bytes(plane: Plane, store: Store, person: Path, plain: Path) -> None:
    plain.write_bytes(ROLLOUT.read_bytes())
    session = store.session(only(plane, person, "codex").session)
    [before] = files_of(store, session)
    erase(store, session, actor="person:ada")
    take = FileUpdate(
        file_id=b"x" * 32, machine="here", runtime="codex", format="rollout", path="x", native_id="x", fingerprint="",
        before=None, into=session, drafts=[], data=GONE.encode(), start=0, generation=0, read_bytes=0,
        ends_digest=before.ends_digest, state="", translated=0, opaque=0, quarantined=0,
    )  # fmt: skip
    [refused] = apply_updates(store, [take], actor="person:ada")
    assert isinstance(refused, WrongState)


def test_a_fork_is_resumed_where_its_file_has_moved(
    plane: Plane, person: Path, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    plain.write_bytes(ROLLOUT.read_bytes())
    archive(plane, only(plane, person, "codex").session)
    plain.write_bytes(ROLLOUT.read_bytes() + prompt("more"))
    fork = only(plane, person, "codex").session
    moved = person / ".codex/archived_sessions" / plain.name
    moved.parent.mkdir()
    plain.rename(moved)
    assert only(plane, person, "codex").session == fork
    made = plane.client.call("materialise", session=fork, runtime="codex")
    assert (made.session, made.files, plain.exists()) == (fork, [str(moved)], False)


def test_a_file_that_was_pruned_and_is_gone_is_not_put_back_empty(
    plane: Plane, store: Store, person: Path, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    plain.write_bytes(ROLLOUT.read_bytes())
    session = store.session(only(plane, person, "codex").session)
    set_policy(store, Policy(project=session.project, keep_days=1))
    assert apply_policies(store, actor="person:ada", now=store.head(session).at + 2 * DAY_US)
    plain.unlink()
    with pytest.raises(InvalidInput, match="no conversation"):
        plane.client.call("materialise", session=session.id, runtime="codex")
    assert not plain.exists()
