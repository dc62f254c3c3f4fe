"""Rollouts that Codex packs when they are old and unpacks to go on: one session all the while, and its exact bytes."""

import json
from pathlib import Path

import pytest
import zstandard

from clew.client import Plane
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
    both = {one.path: one for one in capture(plane, person, "codex")}
    assert both[str(packed)].note == "it is there unpacked, too, and is read there"
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
    assert [one.id for one in plane.sessions()] == [session]


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
    assert sum(one.kind == "message_added" for one in events(plane, session)) == len(said(plane, session))


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
    errors = [one.error for one in capture(plane, person, "codex") if one.error]
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
