"""What programs write that no reader knows: it is stored, counted, and shown without anybody's words."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew import app
from clew.client import Plane
from clew.runtimes.shapes import known_shapes, redacted, shape_of
from clew.service.capture.drift import MOST, Drift, load
from support import claude
from support.captures import capture

NEW = {
    "type": "mind-map",
    "timestamp": "2026-11-10T10:00:00.000Z",
    "sessionId": claude.SESSION,
    "nodes": [{"text": "the secret plan", "/home/me/plan.txt": 7}],
    "open": True,
}


@pytest.fixture
def own(tmp_path: Path) -> Plane:
    """A store with a home of its own."""
    (tmp_path / "own").mkdir()
    return app.connect(home=tmp_path / "own")


def written(person: Path, *more: dict[str, Any]) -> None:
    story = [record for record in claude.story() if record["type"] not in ("progress", "a-type-nobody-knows")]
    claude.transcript(person).write_bytes(claude.lines([*story, *more]))


def drift(plane: Plane) -> dict[tuple[str, str], Drift]:
    found: list[Drift] = plane.client.call("drift")
    assert {one.runtime for one in found} <= {"claude-code"}
    return {(one.what, one.name): one for one in found}


def test_what_is_known_is_no_drift(own: Plane, person: Path) -> None:
    with own:
        written(person)
        capture(own, person)
        assert drift(own) == {}


def test_a_version_of_any_length_stops_no_capture(own: Plane, person: Path) -> None:
    with own:
        written(person, claude.says("later", "a3", "and now?", version="9" * 5000))
        [report] = capture(own, person)
        assert report.status == "new"
        assert [what for what, _ in drift(own)] == ["version"]


def test_a_kind_a_field_and_a_version_that_are_new_are_counted(own: Plane, person: Path) -> None:
    says = claude.says("later", "a3", "and now?", mood="good", version="999.0.1")
    with own:
        written(person, NEW)
        capture(own, person)
        written(person, NEW, NEW, says)
        capture(own, person)
        found = drift(own)
        assert {name: one.count for name, one in found.items()} == {
            ("kind", "mind-map"): 2,
            ("field", "mood"): 1,
            ("version", "999.0.1"): 1,
        }
        assert found["kind", "mind-map"].since == 1_794_304_800_000_000
        assert json.loads(found["kind", "mind-map"].example) == {
            "type": "mind-map",
            "timestamp": "text of 24",
            "sessionId": f"text of {len(claude.SESSION)}",
            "nodes": [{"text": "text of 15", "...": 0}],
            "open": True,
        }
        # Nothing changed: nothing is counted again.
        capture(own, person)
        assert drift(own) == found


def test_what_a_reader_learned_is_shown_no_more(own: Plane, person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own:
        written(person, NEW)
        capture(own, person)
        assert list(drift(own)) == [("kind", "mind-map")]
        known = known_shapes()["claude-code"]
        monkeypatch.setitem(known_shapes(), "claude-code", type(known)(known.kinds | {"mind-map"}, known.fields))
        assert drift(own) == {}


def test_the_counts_are_bounded_and_say_so_and_a_damaged_file_of_them_is_begun_anew(own: Plane, person: Path) -> None:
    home = Path(own.client.context.home)
    with own:
        (home / "drift.json").write_text("{")
        written(person, *({"type": f"kind-{chr(97 + n % 26)}{chr(97 + n // 26)}"} for n in range(MOST + 10)))
        capture(own, person)
        kept = load(home)
        [more] = [one for one in kept if one.what == "more"]
        assert (len(kept), more.runtime, more.count) == (MOST + 1, "claude-code", 10)
        # What a reader has learned since makes room.
        kept[0].name = "assistant"
        (home / "drift.json").write_bytes(msgspec.json.encode(kept))
        written(person, NEW)
        capture(own, person)
        assert "mind-map" in {one.name for one in load(home)}
        assert (home / "drift.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "record", ["", "[]", "7", '{"type": 7}', '{"type": "a b"}', '{"message": {"type": null}}', "{"]
)
def test_any_record_has_a_shape_or_none(record: str) -> None:
    for damaged in (
        b'{"type": "\xff"}',
        b'{"type": "\\ud800"}',
        b'{"timestamp": "\\ud800"}',
        b'{"\xff": 1}',
        b"{" * 9999,
    ):
        assert shape_of(damaged) is None or redacted(damaged) == ""
    shape = shape_of(record)
    assert shape is None or shape.kind in ("", "...")
    assert isinstance(redacted(record), str)


def test_an_example_says_nothing_that_somebody_wrote() -> None:
    secret = "sk-ant-api03-secret"
    record = {"type": secret + " ", "id": secret, secret * 3: {"/etc/passwd": secret}, "many": [secret] * 9, "n": 4711}
    shown = redacted(json.dumps(record))
    assert "secret" not in shown
    assert "passwd" not in shown
    assert "4711" not in shown
