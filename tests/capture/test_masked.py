"""A project that masks: what is captured holds no secret, in the log, its index or the native file, and still grows."""

from pathlib import Path
from typing import Any

import msgspec

from clew.client import Plane
from clew.service import call

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
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
        assert tx.run("blob_digests") == []  # All of the file is in its segments, which were read for the export.
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
