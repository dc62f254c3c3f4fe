"""A project that masks: what is captured holds no secret, in the log, its index or the native file, and still grows."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from clew.client import Plane
from clew.service import call
from clew.service.capture import prepare
from clew.store.native_files import segments

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PARTS = [SECRET[at : at + 8] for at in range(4, len(SECRET) - 7)]
ID = "0b7c7a1e-8a39-4c11-9f0a-0123456789ab"


def line(number: int, text: str) -> str:
    record: dict[str, Any] = {
        "type": "user", "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": ID,
        "cwd": "/work/bank", "timestamp": f"2026-10-05T10:00:{number:02}.000Z", "version": "2.0.0",
        "message": {"role": "user", "content": text},
    }  # fmt: skip
    return msgspec.json.encode(record).decode() + "\n"


def test_what_is_captured_holds_no_secret_and_goes_on_growing(plane: Plane, tmp_path: Path) -> None:
    call(plane.client.context, "setting_set", {"name": "secrets", "value": "mask"})
    plane.client.context._cache.clear()
    file = tmp_path / "projects" / "-work-bank" / f"{ID}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(line(0, f"the token is {SECRET}, keep it"))
    [first] = list(plane.capture([str(file)], runtime="claude-code"))
    with file.open("a") as more:
        more.write(line(1, "go on") + line(2, f"again {SECRET}"))
    [second] = list(plane.capture([str(file)], runtime="claude-code"))
    assert (first.status, second.status, second.session) == ("new", "grown", first.session)
    [third] = list(plane.capture([str(file)], runtime="claude-code"))
    assert third.status == "same"
    store = plane.client.context.store
    told = msgspec.json.encode([event.body for event in store.read(store.session(first.session))]).decode()
    assert "[REDACTED:github-pat:" in told
    [native] = plane.client.call("export", session=first.session, form="native", secrets=True)
    assert len(native.data) == file.stat().st_size
    assert [msgspec.json.decode(one)["uuid"] for one in native.data.splitlines()] == ["u0", "u1", "u2"]
    with store.database.read() as tx:
        # All of the file is in its segments, which were read for the export.
        assert tx.run("objects_after", after=b"", limit=1) == []
        texts = [str(row) for row in tx.connection.execute("SELECT body, source FROM event")]  # type: ignore[attr-defined]
    for text in (told, native.data.decode(), *texts):
        assert SECRET not in text


def test_a_file_that_was_kept_before_the_project_masked_is_not_read_again(plane: Plane, tmp_path: Path) -> None:
    file = tmp_path / "projects" / "-work-bank" / f"{ID}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(line(0, f"the token is {SECRET}, keep it"))
    [first] = list(plane.capture([str(file)], runtime="claude-code"))
    call(plane.client.context, "setting_set", {"name": "secrets", "value": "mask"})
    plane.client.context._cache.clear()
    with file.open("a") as more:
        more.write(line(1, f"again {SECRET}"))
    [second] = list(plane.capture([str(file)], runtime="claude-code"))
    assert (second.status, second.session) == ("grown", first.session)


# A secret in two parts of a file: half of it looks like none ----------------------------------------------------------


def parts_in(data: bytes) -> list[str]:
    return [part for part in PARTS if part.encode() in data]


def exported(plane: Plane, session: str) -> bytes:
    [native] = plane.client.call("export", session=session, form="native", secrets=True)
    return bytes(native.data)


@pytest.mark.parametrize("cut", [6, 20, 39])
def test_a_secret_that_is_only_half_written_is_not_stored(plane: Plane, tmp_path: Path, cut: int) -> None:
    call(plane.client.context, "setting_set", {"name": "secrets", "value": "mask"})
    plane.client.context._cache.clear()
    file = tmp_path / "projects" / "-work-bank" / f"{ID}.jsonl"
    file.parent.mkdir(parents=True)
    first, second = line(0, "hello"), line(1, f"the token is {SECRET}, keep it")
    half = second[: second.index(SECRET) + cut]
    statuses = []
    for text in (first + half, first + second, first + second + line(2, "go on")):
        file.write_text(text)
        [report] = list(plane.capture([str(file)], runtime="claude-code"))
        statuses.append(report.status)
        assert not parts_in(exported(plane, report.session))
    assert statuses == ["new", "grown", "grown"]
    assert len(exported(plane, report.session)) == file.stat().st_size
    assert (report.records, report.quarantined) == (3, 0)


def test_a_secret_over_the_border_of_two_segments_is_masked(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(plane.client.context, "setting_set", {"name": "secrets", "value": "mask"})
    plane.client.context._cache.clear()
    file = tmp_path / "projects" / "-work-bank" / f"{ID}.jsonl"
    file.parent.mkdir(parents=True)
    text = line(0, f"the token is {SECRET}, keep it") + line(1, "and more")
    border = text.index(SECRET) + 20
    for module in (prepare, segments):
        monkeypatch.setattr(module, "SEGMENT_BYTES", border)
    file.write_text(text)
    [first] = list(plane.capture([str(file)], runtime="claude-code"))
    assert not parts_in(exported(plane, first.session))
    file.write_text(text + line(2, "go on"))
    [second] = list(plane.capture([str(file)], runtime="claude-code"))
    assert second.status == "grown", "the file is recognised as the one that is stored"
    file.touch()
    [third] = list(plane.capture([str(file)], runtime="claude-code"))
    assert third.status == "same"


def test_a_server_shows_no_half_of_a_secret_in_a_part_of_a_file(plane: Plane, tmp_path: Path) -> None:
    """The project keeps secrets, and the two halves are in two segments."""
    file = tmp_path / "projects" / "-work-bank" / f"{ID}.jsonl"
    file.parent.mkdir(parents=True)
    text = line(0, "hello") + line(1, f"the token is {SECRET}, keep it")
    for upto in (text.index(SECRET) + 20, len(text)):
        file.write_text(text[:upto])
        [report] = list(plane.capture([str(file)], runtime="claude-code"))
    assert SECRET.encode() in exported(plane, report.session)
    served = msgspec.structs.replace(plane.client.context, answers_leave_machine=True)
    [native] = call(served, "originals", {"session": report.session})
    assert len(native.segments) == 2
    for digest in native.segments:
        piece = call(served, "blob", {"session": report.session, "digest": digest})
        data = zstandard.decompress(bytes.fromhex(piece.packed))
        assert b"*****" in data
        assert not parts_in(data)
