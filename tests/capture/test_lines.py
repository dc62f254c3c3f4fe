"""Files of lines: captured once, as they grow, damaged, rewritten, moved, and given back byte for byte."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.model import codec
from clew.model.conversation import conversation
from clew.model.events import CallReturned, Event, MessageAdded, Opaque
from clew.runtimes.rounds import rounds, text_of
from clew.service.capture.report import Captured
from clew.store import Store, open_store
from support import claude


def capture(plane: Plane, home: Path, **more: Any) -> list[Captured]:
    return list(plane.capture(runtime="claude-code", home=str(home), **more))


def only(plane: Plane, home: Path) -> Captured:
    [report] = capture(plane, home)
    assert report.error is None, report
    return report


def events(plane: Plane, session: str) -> list[Event]:
    found: list[Event] = plane.client.call("events", session=session)
    return found


def log(plane: Plane, session: str) -> list[dict[str, Any]]:
    """What a log says, without what differs between two logs of the same thing."""
    fields = [codec.event_fields(event) for event in events(plane, session)]
    return [json.loads(codec.to_json({**one, "session": "", "at": 0})) for one in fields]


def native(plane: Plane, session: str) -> bytes:
    [file] = plane.client.call("export", session=session, form="native")
    return bytes(file.data)


def test_a_session_is_captured_with_every_record_accounted_for(plane: Plane, person: Path) -> None:
    story = claude.story()
    claude.transcript(person).write_bytes(claude.lines(story))
    report = only(plane, person)
    assert (report.status, report.records) == ("new", len(story))
    assert (report.events, report.opaque, report.quarantined) == (10, 5, 0)
    kinds = [event.kind for event in events(plane, report.session)]
    assert kinds.count("message_added") == 5
    assert kinds.count("call_made") == kinds.count("call_returned") == 2
    # The second of two equal lines is a record of its own.
    assert kinds.count("claude-code.mode") == 2
    assert kinds.count("claude-code.a-type-nobody-knows") == 1


def test_the_session_has_the_title_the_person_gave_it_and_counts_usage_once_per_answer(
    plane: Plane, person: Path
) -> None:
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    info = plane.client.call("show", session=only(plane, person).session).session
    assert (info.title, info.project, info.agent) == ("Files", "app", "claude-code")
    # Three answers of 100 in, 5 out and 3 written to the cache each; one of them in three records.
    assert info.spent_tokens == 3 * 108


def test_the_conversation_is_what_was_said_in_order(plane: Plane, person: Path) -> None:
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    told = rounds(conversation(events(plane, only(plane, person).session)))
    assert [type(one).__name__ for one in told] == ["Prompt", "Answer", "Results", "Answer", "Prompt", "Answer"]
    assert [call.call for call in told[1].calls] == ["t1", "t2"]
    assert [back.failed for back in told[2].returns] == [False, True]
    assert text_of(told[3].parts) == "Zwei Dateien: a.txt und über.txt."


def test_capturing_again_changes_nothing(plane: Plane, person: Path) -> None:
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    first = only(plane, person)
    before = log(plane, first.session)
    second = only(plane, person)
    assert (second.status, second.session, second.records) == ("same", first.session, first.records)
    assert log(plane, first.session) == before


def test_a_file_that_grows_in_a_thousand_cuts_gives_the_log_of_one_capture(
    tmp_path: Path, person: Path, store_url: str
) -> None:
    whole = claude.lines(claude.story() * 1) + claude.lines(
        [claude.says(f"x{i}", f"x{i - 1}" if i else "a5", f"mehr über {i} 🧵") for i in range(20)]
    )
    from support.planes import plane_on

    path = claude.transcript(person)
    path.write_bytes(whole)
    with plane_on(f"sqlite:///{tmp_path / 'once.db'}") as once, plane_on(store_url) as growing:
        expected = log(once, only(once, person).session)
        chance = random.Random(11)
        cuts = sorted(chance.sample(range(1, len(whole)), 1000 if store_url.startswith("sqlite") else 100))
        report = None
        for cut in [*cuts, len(whole)]:
            path.write_bytes(whole[:cut]) if cut == cuts[0] else _grow(path, whole[:cut])
            [report] = capture(growing, person)
            assert report.error is None
        assert report is not None
        assert log(growing, report.session) == expected
        assert native(growing, report.session) == whole
        assert report.records == report.events + report.opaque + report.quarantined


def _grow(path: Path, data: bytes) -> None:
    """Append what is missing, as a program does."""
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(data[file.tell() :])
    # Two appends within one tick of the clock: a size that differs tells them apart.
    assert path.read_bytes() == data


def test_the_original_comes_back_byte_for_byte_after_the_program_deleted_it(plane: Plane, person: Path) -> None:
    # No end of the last line, a blank line, odd spaces: whatever it was.
    data = claude.lines(claude.story()) + b'\n  {"type": "mode",   "mode":"plan"}\r\n{"type":"last-prompt"}'
    path = claude.transcript(person)
    path.write_bytes(data)
    report = only(plane, person)
    path.unlink()
    assert native(plane, report.session) == data
    assert report.records == len(claude.story()) + 2


@pytest.mark.parametrize(
    ("damage", "quarantined", "extra"),
    [
        pytest.param(b'{"type":"mode","mo', 1, 0, id="torn"),
        pytest.param(b'{"type":"user","mess{"type":"mode","mode":"plan"}', 1, 1, id="torn-then-whole"),
        pytest.param(b'{"type":"mode"}{"type":"mode","mode":"x"}', 0, 2, id="two-in-a-line"),
        pytest.param(b"\0" * 50 + b'{"type":"mode"}', 0, 1, id="nuls-then-whole"),
        pytest.param(b"\xff\xfe\x00garbage", 1, 0, id="binary"),
        pytest.param(b'{"type":"mode","mode":"\xff\xfe"}', 1, 0, id="not-utf-8"),
        pytest.param(b"[" * 100_000, 1, 0, id="deep"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 1, 0, id="deep-and-whole"),
        pytest.param(b'"just text"', 0, 1, id="no-object"),
        pytest.param(b"<<<<<<< HEAD", 1, 0, id="not-json"),
    ],
)
def test_a_damaged_line_is_quarantined_and_the_rest_is_read(
    plane: Plane, person: Path, damage: bytes, quarantined: int, extra: int
) -> None:
    story = claude.story()
    data = claude.lines(story[:4]) + damage + b"\n" + claude.lines(story[4:])
    claude.transcript(person).write_bytes(data)
    report = only(plane, person)
    assert (report.quarantined, report.records) == (quarantined, len(story) + extra + quarantined)
    bad = [e.body for e in events(plane, report.session) if e.kind == "clew.quarantined"]
    assert len(bad) == quarantined
    for body in bad:
        assert isinstance(body, Opaque)
        place = json.loads(body.raw)
        piece = data[place["offset"] : place["offset"] + place["length"]]
        assert piece
        assert damage.startswith(piece)
    assert native(plane, report.session) == data


def test_a_half_written_line_waits_and_is_reported(plane: Plane, person: Path) -> None:
    story = claude.story()
    data = claude.lines(story)
    path = claude.transcript(person)
    path.write_bytes(data[:-20])
    report = only(plane, person)
    assert (report.records, report.quarantined, bool(report.note)) == (len(story), 1, True)
    assert native(plane, report.session) == data[:-20]
    path.write_bytes(data)
    report = only(plane, person)
    assert (report.status, report.records, report.quarantined, report.note) == ("grown", len(story), 0, "")


def test_a_rewritten_file_is_read_anew_and_nothing_is_there_twice(plane: Plane, person: Path) -> None:
    story = claude.story()
    path = claude.transcript(person)
    path.write_bytes(claude.lines(story))
    first = only(plane, person)
    changed = [one if one.get("uuid") != claude.id_of("u2") else claude.says("u2", "a4", "REDACTED") for one in story]
    data = claude.lines(changed[1:])
    path.write_bytes(data)
    report = only(plane, person)
    assert (report.status, report.session) == ("rewritten", first.session)
    said = [text_of(one.body.content) for one in conversation(events(plane, report.session))
            if isinstance(one.body, MessageAdded) and one.body.role == "user"]  # fmt: skip
    assert said == ["liste die Dateien für mich 🧵", "REDACTED"]
    assert native(plane, report.session) == data
    assert sum(event.kind == "claude-code.mode" for event in events(plane, report.session)) == 2


def test_a_change_of_the_same_length_in_the_middle_is_seen(plane: Plane, person: Path) -> None:
    filler = [claude.says(f"f{i}", f"f{i - 1}" if i else None, "x" * 500) for i in range(40)]
    data = claude.lines(filler)
    path = claude.transcript(person)
    path.write_bytes(data)
    only(plane, person)
    middle = data.index(b"x" * 500, len(data) // 2)
    path.write_bytes(data[:middle] + b"y" * 500 + data[middle + 500 :])
    report = only(plane, person)
    assert report.status == "rewritten"
    assert native(plane, report.session) == path.read_bytes()


def test_a_touched_file_is_the_same(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()))
    first = only(plane, person)
    os.utime(path, ns=(1, 1))
    second = only(plane, person)
    assert (second.status, second.session, second.records) == ("same", first.session, first.records)


def test_a_file_that_moved_is_the_same_session(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()))
    first = only(plane, person)
    elsewhere = claude.transcript(person, folder="-home-me-elsewhere")
    path.rename(elsewhere)
    with elsewhere.open("ab") as file:
        file.write(claude.lines([claude.says("u3", "a5", "and now?")]))
    report = only(plane, person)
    assert (report.session, report.records) == (first.session, first.records + 1)


def test_two_files_with_one_id_are_two_sessions(plane: Plane, person: Path) -> None:
    claude.transcript(person).write_bytes(claude.lines([claude.says("one", None, "the one")]))
    other = claude.transcript(person, folder="-home-me-other")
    other.write_bytes(claude.lines([claude.says("two", None, "the other")]))
    reports = capture(plane, person)
    assert len({one.session for one in reports}) == 2
    assert not any(one.error for one in reports)


def test_a_native_fork_hangs_on_the_session_it_came_from(plane: Plane, person: Path) -> None:
    story = [one for one in claude.story() if "uuid" in one]
    claude.transcript(person).write_bytes(claude.lines(story))
    first = only(plane, person)
    fork = "99999999-2222-4333-8444-555555555555"
    copied = [{**one, "sessionId": fork} for one in story[:9]]
    new = [claude.says("f1", "a4", "another way"), claude.answers("f2", "f1", claude.text("fine"))]
    claude.transcript(person, session=fork).write_bytes(claude.lines([*copied, *new]))
    child = next(one for one in capture(plane, person) if one.session != first.session)
    shown = plane.client.call("show", session=child.session)
    assert shown.session.parent == first.session
    own = [event for event in events(plane, child.session) if event.session == child.session]
    assert [event.kind for event in own if event.kind.startswith("message")] == ["message_added", "message_added"]
    said = [text_of(one.body.content) for one in conversation(events(plane, child.session))
            if isinstance(one.body, MessageAdded)]  # fmt: skip
    assert said.count("another way") == 1
    assert f"look at {claude.CWD}/a.txt please" not in said


def test_a_rewind_leaves_the_abandoned_turn_in_the_log_and_out_of_the_conversation(plane: Plane, person: Path) -> None:
    again = [claude.says("u2b", "a4", "no, look at the other one"), claude.answers("a5b", "u2b", claude.text("Sure."))]
    claude.transcript(person).write_bytes(claude.lines([*claude.story(), *again]))
    session = only(plane, person).session
    said = [text_of(one.body.content) for one in conversation(events(plane, session)) if hasattr(one.body, "content")]
    assert said[-2:] == ["no, look at the other one", "Sure."]
    assert "Done." not in said
    assert any(isinstance(e.body, MessageAdded) and e.body.text == "Done." for e in events(plane, session))


def test_what_parallel_calls_gave_back_stays_whatever_the_records_hang_on(plane: Plane, person: Path) -> None:
    records = [
        claude.says("u", None, "both"),
        claude.answers("c1", "u", claude.calls("t1", "one"), message="m"),
        claude.returns("b1", "c1", "t1", "1"),
        claude.answers("c2", "c1", claude.calls("t2", "two"), message="m"),
        claude.returns("b2", "c2", "t2", "2"),
        claude.answers("end", "b1", claude.text("done"), message="n"),
    ]
    claude.transcript(person).write_bytes(claude.lines(records))
    spoken = conversation(events(plane, only(plane, person).session))
    assert sorted(e.body.call for e in spoken if isinstance(e.body, CallReturned)) == ["t1", "t2"]
    told = rounds(spoken)
    assert [call.call for call in told[1].calls] == ["t1", "t2"]


@pytest.mark.parametrize("name", ["../../../../etc/x", "a" * 300, "x\x1b[31m", "-rf", "ü" * 100])
def test_a_hostile_name_stays_a_name(plane: Plane, person: Path, name: str) -> None:
    folder = claude.transcript(person).parent
    safe = name.replace("/", "_")[:200]
    (folder / f"{safe}.jsonl").write_bytes(claude.lines(claude.story()))
    report = only(plane, person)
    assert report.records == len(claude.story())


def test_a_record_that_reuses_an_id_with_other_content_is_kept(plane: Plane, person: Path) -> None:
    records = [claude.says("u", None, "first"), claude.says("u", None, "second"), claude.says("u", None, "first")]
    claude.transcript(person).write_bytes(claude.lines(records))
    report = only(plane, person)
    said = [e.body.text for e in events(plane, report.session) if isinstance(e.body, MessageAdded)]
    assert sorted(said) == ["first", "second"]


def test_an_unreadable_file_is_reported_and_the_others_are_captured(plane: Plane, person: Path) -> None:
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    broken = claude.transcript(person, session="99999999-0000-4000-8000-000000000000")
    broken.symlink_to(person / "gone")
    loop = claude.transcript(person, session="88888888-0000-4000-8000-000000000000")
    loop.mkdir()
    assert [one.status for one in capture(plane, person)] == ["new"]


def test_a_line_of_fifty_megabytes_is_kept(person: Path, tmp_path: Path) -> None:
    from support.planes import plane_on

    huge = claude.says("huge", "a5", "x" * 50_000_000)
    data = claude.lines([*claude.story(), huge, claude.says("after", "huge", "still here")])
    claude.transcript(person).write_bytes(data)
    with plane_on(f"sqlite:///{tmp_path / 'huge.db'}") as plane:
        report = only(plane, person)
        assert report.records == len(claude.story()) + 2
        assert native(plane, report.session) == data


def test_an_empty_file_is_no_session(plane: Plane, person: Path) -> None:
    claude.transcript(person).write_bytes(b"")
    report = only(plane, person)
    assert (report.status, report.session, report.records) == ("empty", "", 0)


def test_what_was_erased_is_not_captured_again(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()))
    session = only(plane, person).session
    plane.client.call("erase", session=session)
    with path.open("ab") as file:
        file.write(claude.lines([claude.says("u3", "a5", "secret again")]))
    report = only(plane, person)
    assert (report.status, report.session) == ("erased", session)
    assert plane.sessions() == []
    assert not plane.search("secret").hits


def test_erasing_a_captured_session_leaves_no_trace_of_its_original(person: Path, tmp_path: Path) -> None:
    from support.planes import plane_on

    canary = "canary-7b1f"
    folder = tmp_path / "log"
    claude.transcript(person, session=canary).write_bytes(
        claude.lines(
            [claude.says("u", None, f"my {canary}"), claude.says("v", "u", random.Random(1).randbytes(90_000).hex())]
        )
    )
    with plane_on(f"sqlite:///{folder / 'clew.db'}") as plane:
        session = only(plane, person).session
        plane.client.call("erase", session=session)
    kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert canary.encode() not in kept
    with open_store(f"sqlite:///{folder / 'clew.db'}") as store, store.database.read() as tx:
        assert tx.run("objects_after", after=b"", limit=1) == []


def test_a_closed_session_that_goes_on_is_resumed(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()))
    session = only(plane, person).session
    plane.client.call("close", session=session)
    with path.open("ab") as file:
        file.write(claude.lines([claude.says("u3", "a5", "wait, one more")]))
    assert only(plane, person).session == session
    assert plane.client.call("show", session=session).session.state == "active"


def test_the_chain_of_a_captured_session_verifies(plane: Plane, person: Path, store: Store) -> None:
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    session = only(plane, person).session
    [verified] = plane.verify(session)
    assert verified.ok
    assert verified.events == store.head(store.session(session)).head
