"""A captured session written for another program, and captured back: what is carried, said to be lost, and linked."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.model.conversation import conversation
from clew.model.errors import Conflict, InvalidInput, Lossy, StoreError
from clew.model.events import CallMade, Event, MessageAdded
from clew.runtimes.rounds import Answer, Prompt, Results, output_text, rounds, text_of
from clew.service.capture.report import Captured
from clew.service.handover.materialised import Materialised
from support import claude
from support.children import environment
from support.planes import plane_on
from support.samples import samples

WRITABLE = ["claude-code", "codex", "copilot-cli", "gemini-cli", "pi", "qwen-code"]


@pytest.fixture
def session(plane: Plane, person: Path) -> str:
    """A captured Claude Code session."""
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    [report] = captured(plane, person, "claude-code")
    return report.session


@pytest.fixture(autouse=True)
def elsewhere(plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home that sessions are written to; none of this machine's programs is in the way."""
    home = tmp_path / "elsewhere"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_DATA_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def captured(plane: Plane, home: Path, runtime: str = "") -> list[Captured]:
    found = list(plane.capture(runtime=runtime, home=str(home)))
    assert not any(one.error for one in found), found
    return found


def materialise(plane: Plane, session: str, runtime: str, **more: Any) -> Materialised:
    made: Materialised = plane.client.call("materialise", session=session, runtime=runtime, **more)
    return made


def events(plane: Plane, session: str) -> list[Event]:
    found: list[Event] = plane.client.call("events", session=session)
    return found


def told(plane: Plane, session: str) -> list[tuple[str, ...]]:
    """A conversation as plain words."""
    words: list[tuple[str, ...]] = []
    for one in rounds(conversation(events(plane, session))):
        if isinstance(one, Prompt):
            words.append(("user", text_of(one.parts)))
        elif isinstance(one, Answer):
            words += [("assistant", text_of(one.parts))] if text_of(one.parts) else []
            words += [
                ("call", call.tool, json.dumps(json.loads(bytes(call.input)), sort_keys=True)) for call in one.calls
            ]
        elif isinstance(one, Results):
            words += [("result", output_text(back), str(back.failed)) for back in one.returns]
    return words


@pytest.mark.parametrize("runtime", WRITABLE)
def test_what_is_written_for_a_program_says_what_the_session_said(
    plane: Plane, session: str, runtime: str, elsewhere: Path
) -> None:
    made = materialise(plane, session, runtime, cwd=str(elsewhere))
    assert made.runtime == runtime
    assert made.native_id
    assert all(Path(path).is_relative_to(elsewhere) for path in made.files)
    assert all(os.stat(path).st_mode & 0o077 == 0 for path in made.files)
    # The same file in a home of its own, captured as a stranger, tells the same story.
    stranger = elsewhere.parent / "stranger"
    for path in made.files:
        copy = stranger / Path(path).relative_to(elsewhere)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(Path(path).read_bytes())
    with plane_on(f"sqlite:///{elsewhere.parent / 'other.db'}") as other:
        [report] = captured(other, stranger, runtime)
        got = told(other, report.session)
    wanted = told(plane, session)
    wanted = [_rehomed(one, str(elsewhere)) for one in wanted]
    if runtime == "codex":  # It has no mark for a call that failed, and the report says so.
        assert "marks of failed calls" in {change.what for change in made.fidelity.adapted}
        wanted = [(*one[:2], "False") if one[0] == "result" else one for one in wanted]
    assert [one for one in got if one[0] != "call"] == [one for one in wanted if one[0] != "call"]
    assert [json.loads(one[2]) for one in got if one[0] == "call"] == [
        {("cmd" if runtime == "codex" else "command"): "ls"},
        {("cmd" if runtime == "codex" else "command"): "cat nothing"},
    ]


def _rehomed(words: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    return tuple(word.replace(f"{claude.CWD}/", f"{cwd}/") for word in words)


@pytest.mark.parametrize("runtime", WRITABLE)
def test_what_goes_on_there_is_captured_into_a_fork_and_nothing_is_repeated(
    plane: Plane, session: str, runtime: str, elsewhere: Path
) -> None:
    made = materialise(plane, session, runtime, cwd=str(elsewhere))
    before = told(plane, made.session)
    assert before == told(plane, session)
    # Captured as it was written there is nothing new in it.
    assert {report.session for report in captured(plane, elsewhere, runtime)} == {made.session}
    assert told(plane, made.session) == before
    # The last prompt once more, as the program would append it.
    path = Path(made.files[0])
    _go_on(path, runtime, "and what now?")
    [*_] = captured(plane, elsewhere, runtime)
    after = told(plane, made.session)
    assert after == [*before, ("user", "and what now?")]
    shown = plane.client.call("show", session=made.session)
    assert shown.session.parent == session
    attached = [event.body for event in events(plane, made.session) if event.kind == "runtime_attached"]
    assert attached[-1].runtime == runtime


def _go_on(path: Path, runtime: str, words: str) -> None:
    """Append a prompt to a native session, as its program does."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    at = "2026-11-16T12:00:00.000Z"
    new: dict[str, Any]
    if runtime in ("claude-code", "qwen-code"):
        last = _last(rows, "uuid")
        said = {"content": words} if runtime == "claude-code" else {"parts": [{"text": words}]}
        new = {**last, "type": "user", "uuid": f"new {words}", "parentUuid": last["uuid"], "timestamp": at}
        new["message"] = {"role": "user", **said}
    elif runtime == "codex":
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
        new = {"timestamp": at, "type": "response_item", "payload": item}
    elif runtime == "copilot-cli":
        new = {"type": "user.message", "id": "new-1", "timestamp": at, "data": {"content": words}}
        new["parentId"] = _last(rows, "id")["id"]
    elif runtime == "gemini-cli":
        new = {"id": "new-1", "timestamp": at, "type": "user", "content": [{"text": words}]}
    else:
        said = {"role": "user", "content": [{"type": "text", "text": words}]}
        new = {"type": "message", "id": "new00001", "parentId": _last(rows, "id")["id"], "timestamp": at}
        new["message"] = said
    with path.open("ab") as file:
        file.write(json.dumps(new).encode() + b"\n")


def _last(rows: list[dict[str, Any]], field: str) -> dict[str, Any]:
    return next(dict(row) for row in reversed(rows) if row.get(field))


def test_the_report_says_what_was_adapted_and_dropped(plane: Plane, session: str, elsewhere: Path) -> None:
    fidelity = materialise(plane, session, "codex", cwd=str(elsewhere)).fidelity
    assert fidelity.carried == {"prompts": 2, "answers": 2, "calls": 2, "results": 2}
    assert {change.what: change.count for change in fidelity.adapted} == {
        "tool names": 2, "paths": 1, "marks of failed calls": 1,
    }  # fmt: skip
    assert {change.what: change.count for change in fidelity.dropped} == {"thinking": 1}
    assert all(one.why for one in (*fidelity.adapted, *fidelity.dropped))
    assert fidelity.stayed["claude-code.mode"] == 2


def test_strict_refuses_and_writes_nothing(plane: Plane, session: str, elsewhere: Path) -> None:
    sessions = len(plane.sessions())
    with pytest.raises(Lossy, match="thinking"):
        materialise(plane, session, "codex", strict=True)
    assert not any(elsewhere.rglob("*.jsonl"))
    assert len(plane.sessions()) == sessions


def test_strict_is_satisfied_when_nothing_is_dropped(plane: Plane, person: Path) -> None:
    claude.transcript(person).write_bytes(claude.lines([claude.says("u", None, "hello")]))
    [report] = captured(plane, person, "claude-code")
    assert materialise(plane, report.session, "pi", strict=True).fidelity.dropped == []


def test_going_on_from_an_earlier_event_forks_there(plane: Plane, session: str, elsewhere: Path) -> None:
    at = next(
        e.seq for e in events(plane, session) if isinstance(e.body, MessageAdded) and "Zwei Dateien" in e.body.text
    )
    made = materialise(plane, session, "pi", at=at, cwd=str(elsewhere))
    shown = plane.client.call("show", session=made.session)
    assert (shown.session.parent, shown.session.upto) == (session, at)
    assert told(plane, made.session)[-1] == ("assistant", "Zwei Dateien: a.txt und über.txt.")


def test_a_call_that_never_returned_is_closed_honestly(plane: Plane, person: Path, elsewhere: Path) -> None:
    records = [claude.says("u", None, "go"), claude.answers("a", "u", claude.calls("t", "sleep 9999"))]
    claude.transcript(person).write_bytes(claude.lines(records))
    [report] = captured(plane, person, "claude-code")
    made = materialise(plane, report.session, "codex", cwd=str(elsewhere))
    assert [change.what for change in made.fidelity.adapted if "result" in change.what] == ["calls without a result"]
    outputs = [json.loads(line)["payload"] for line in Path(made.files[0]).read_bytes().splitlines()]
    assert any("No result was recorded" in str(one.get("output")) for one in outputs)


def test_a_session_too_long_for_the_target_is_cut_at_a_turn_with_a_brief_in_front(
    plane: Plane, person: Path, elsewhere: Path
) -> None:
    records = []
    for i in range(40):
        records += [
            claude.says(f"u{i}", f"a{i - 1}" if i else None, f"question {i} " + "x" * 30_000),
            claude.answers(f"a{i}", f"u{i}", claude.text(f"answer {i}")),
        ]
    claude.transcript(person).write_bytes(claude.lines(records))
    [report] = captured(plane, person, "claude-code")
    plane.client.call(
        "append", session=report.session, drafts=[{"kind": "fact_learned", "fact": "f", "text": "the port is 4711"}]
    )
    made = materialise(plane, report.session, "codex", cwd=str(elsewhere))
    [cut] = made.fidelity.dropped
    with pytest.raises(Lossy, match=f"{cut.count} turns"):
        materialise(plane, report.session, "codex", cwd=str(elsewhere), strict=True)
    assert cut.count > 5
    rows = [json.loads(line)["payload"] for line in Path(made.files[0]).read_bytes().splitlines()]
    texts = [row["content"][0]["text"] for row in rows if row.get("type") == "message"]
    assert "the port is 4711" in texts[0]
    assert texts[1].startswith(f"question {cut.count} ")
    assert texts[-1] == "answer 39"


def test_flattened_calls_are_told_as_text(plane: Plane, session: str, elsewhere: Path) -> None:
    made = materialise(plane, session, "pi", flatten=True, cwd=str(elsewhere))
    data = Path(made.files[0]).read_text()
    assert '"toolCall"' not in data
    assert "cat nothing" in data
    assert "no such file" in data


def test_the_same_program_gets_its_own_file_back(plane: Plane, elsewhere: Path) -> None:
    path = claude.transcript(elsewhere)
    data = claude.lines(claude.story())
    path.write_bytes(data)
    [report] = captured(plane, elsewhere, "claude-code")
    path.unlink()
    made = materialise(plane, report.session, "claude-code")
    assert (made.session, made.native_id, made.command) == (
        report.session, claude.SESSION, ["claude", "--resume", claude.SESSION],
    )  # fmt: skip
    assert path.read_bytes() == data
    assert made.fidelity.dropped == made.fidelity.adapted == []
    # It goes on as the same session.
    with path.open("ab") as file:
        file.write(claude.lines([claude.says("u3", "a5", "more")]))
    assert [report.session for report in captured(plane, elsewhere, "claude-code")] == [report.session]


def test_a_program_that_is_not_written_reopens_a_session_of_its_own(plane: Plane, elsewhere: Path) -> None:
    [(name, data)] = [(name, data) for name, data in samples("cursor").items() if name.endswith("store.db")]
    path = elsewhere / name
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    [report] = captured(plane, elsewhere, "cursor")
    made = materialise(plane, report.session, "")
    assert (made.session, made.command) == (report.session, ["cursor-agent", "--resume", made.native_id])
    assert report.path.endswith(f"store.db#{made.native_id}")
    # Anything else would have to be written.
    for more in ({"at": 1}, {"flatten": True}):
        with pytest.raises(InvalidInput, match="cannot be written, only read"):
            materialise(plane, report.session, "cursor", **more)


def test_paths_of_the_project_follow_it_and_only_whole_names_do(plane: Plane, person: Path, elsewhere: Path) -> None:
    records = [
        claude.says("u", None, f"{claude.CWD}/a {claude.CWD} {claude.CWD}lication {claude.CWD}-old x{claude.CWD}/a"),
        claude.answers("a", "u", claude.calls("t", f"cat {claude.CWD}/b")),
        claude.returns("r", "a", "t", [{"type": "text", "text": f"{claude.CWD}/b: no"}], failed=True),
    ]
    claude.transcript(person).write_bytes(claude.lines(records))
    [report] = captured(plane, person, "claude-code")
    made = materialise(plane, report.session, "pi", cwd="/srv/new")
    assert {change.what: change.count for change in made.fidelity.adapted}["paths"] == 4
    data = Path(made.files[0]).read_text()
    assert f"/srv/new/a /srv/new {claude.CWD}lication {claude.CWD}-old x{claude.CWD}/a" in data
    assert "cat /srv/new/b" in data
    assert "/srv/new/b: no" in data


def test_a_chain_of_programs_keeps_everything_once(plane: Plane, session: str, elsewhere: Path) -> None:
    expected = told(plane, session)
    current = session
    for hop, runtime in enumerate(["codex", "pi", "claude-code", "copilot-cli"]):
        made = materialise(plane, current, runtime, cwd=str(elsewhere))
        _go_on(Path(made.files[0]), runtime, f"hop {hop}")
        captured(plane, elsewhere, runtime)
        expected = [*expected, ("user", f"hop {hop}")]
        got = told(plane, made.session)
        assert [one for one in got if one[0] != "call"] == [one for one in expected if one[0] != "call"]
        assert sum(one[0] == "call" for one in got) == 2
        current = made.session
    calls = [round.body for round in conversation(events(plane, current)) if isinstance(round.body, CallMade)]
    assert {call.tool for call in calls} == {"Bash"}


@pytest.mark.parametrize("runtime", ["cursor", "aider", "unknown", "nobody"])
def test_a_program_that_cannot_be_written_is_named(plane: Plane, session: str, runtime: str) -> None:
    with pytest.raises(InvalidInput, match="codex"):
        materialise(plane, session, runtime)


def test_a_session_without_a_conversation_is_refused(plane: Plane) -> None:
    opened = plane.session("empty")
    with pytest.raises(InvalidInput, match="no conversation"):
        materialise(plane, opened.id, "codex")


def test_a_session_made_by_hand_can_go_on_in_a_program(plane: Plane, elsewhere: Path) -> None:
    with plane.session("by hand") as opened:
        opened.user("why does it lock?")
        with opened.call("shell", {"command": "pytest"}) as call:
            call.output = "1 failed"
    made = materialise(plane, opened.id, "claude-code", cwd=str(elsewhere))
    assert made.fidelity.carried == {"prompts": 1, "calls": 1, "results": 1}
    assert "why does it lock?" in Path(made.files[0]).read_text()


# A resume in a process of its own, which ends itself when the native file is about to be in its place, or just is.
KILLED = """
import os, signal, sys
from support.planes import plane_on

url, session, runtime, when, number = sys.argv[1:]
put, left = os.replace, int(number)

def ending(source, target):
    global left
    left -= 1
    if left or when == "after":
        put(source, target)
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = ending
with plane_on(url) as plane:
    plane.client.call("materialise", session=session, runtime=runtime)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_resume_that_is_killed_leaves_no_stranger(
    plane: Plane, session: str, store_url: str, elsewhere: Path, when: str
) -> None:
    argv = [sys.executable, "-c", KILLED, store_url, session, "codex", when, "1"]
    assert subprocess.run(argv, env=environment(), check=False).returncode == -signal.SIGKILL
    with plane_on(store_url) as other:
        assert {report.status for report in captured(other, elsewhere, "codex")} <= {"same"}
        [fork] = [one for one in other.sessions() if one.id != session]
        assert (fork.parent, told(other, fork.id)) == (session, told(other, session))
        # What is left of it can be gone on with, with its file or without.
        made = materialise(other, fork.id, "codex")
        assert (made.session, len(list(elsewhere.rglob("*.jsonl")))) == (fork.id, 1)
        _go_on(Path(made.files[0]), "codex", "and what now?")
        assert [report.session for report in captured(other, elsewhere, "codex")] == [fork.id]
        assert told(other, fork.id) == [*told(other, session), ("user", "and what now?")]


def test_a_fork_that_gets_its_file_back_has_what_its_program_keeps_beside_it(
    plane: Plane, session: str, store_url: str, elsewhere: Path
) -> None:
    argv = [sys.executable, "-c", KILLED, store_url, session, "copilot-cli", "before", "2"]
    assert subprocess.run(argv, env=environment(), check=False).returncode == -signal.SIGKILL
    with plane_on(store_url) as other:
        [fork] = [one for one in other.sessions() if one.id != session]
        made = Path(materialise(other, fork.id, "copilot-cli").files[0]).parent
        whole = Path(materialise(other, session, "copilot-cli", flatten=True).files[0]).parent
    assert made != whole
    names = {path.name for path in whole.iterdir()}
    # What was half-written when it was killed is hidden, and nobody's.
    assert ({path.name for path in made.iterdir() if path.name[0] != "."}, len(names)) == (names, 2)


def test_a_file_that_cannot_be_written_leaves_no_fork(plane: Plane, session: str, elsewhere: Path) -> None:
    (elsewhere / ".codex").mkdir()
    (elsewhere / ".codex/sessions").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot write"):
        materialise(plane, session, "codex")
    assert [session.id for session in plane.sessions()] == [session]


def test_a_fork_that_was_archived_goes_on_in_another(plane: Plane, session: str, elsewhere: Path) -> None:
    made = materialise(plane, session, "codex", cwd=str(elsewhere))
    plane.client.call("close", session=made.session)
    plane.client.call("archive", session=made.session)
    _go_on(Path(made.files[0]), "codex", "and what now?")
    [report] = captured(plane, elsewhere, "codex")
    assert told(plane, report.session) == [*told(plane, session), ("user", "and what now?")]
    assert {session.id: session.parent for session in plane.sessions()}[report.session] == made.session
    # Its own file is the one to go on with.
    again = materialise(plane, report.session, "codex", cwd=str(elsewhere))
    assert (again.session, again.files) == (report.session, made.files)


# The same once more, tried, and taken back ----------------------------------------------------------------------------


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_second_resume_of_the_same_point_uses_what_the_first_wrote(
    plane: Plane, session: str, elsewhere: Path
) -> None:
    first = materialise(plane, session, "codex", cwd=str(elsewhere))
    again = materialise(plane, session, "Codex", cwd=str(elsewhere))
    assert (again.session, again.files, again.command) == (first.session, first.files, first.command)
    assert "written by an earlier resume" in again.notes
    assert (len(plane.sessions()), len(files_below(elsewhere))) == (2, 1)
    # Elsewhere, told as text, from an earlier event, or after something was said in it: these are not the same.
    for more in ({"cwd": str(elsewhere.parent)}, {"cwd": str(elsewhere), "flatten": True}):
        assert materialise(plane, session, "codex", **more).session != first.session
    _go_on(Path(first.files[0]), "codex", "and what now?")
    assert materialise(plane, session, "codex", cwd=str(elsewhere)).session != first.session


def test_a_dry_run_says_all_and_writes_nothing(plane: Plane, session: str, elsewhere: Path) -> None:
    tried = materialise(plane, session, "codex", cwd=str(elsewhere), dry_run=True)
    assert tried.command[:2] == ["codex", "resume"]
    assert (tried.session, tried.fidelity.carried["prompts"] > 0) == ("", True)
    assert (len(plane.sessions()), files_below(elsewhere)) == (1, [])


def test_what_cannot_be_run_is_refused_before_anything_is_written(
    plane: Plane, session: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InvalidInput, match="codex is not on the PATH, so nothing was written"):
        materialise(plane, session, "codex", cwd=str(elsewhere), to_run=True)
    with pytest.raises(InvalidInput, match="/no/such does not exist"):
        materialise(plane, session, "codex", cwd="/no/such", to_run=True)
    assert (len(plane.sessions()), files_below(elsewhere)) == (1, [])


def test_a_session_goes_on_in_its_own_program_when_none_is_named(plane: Plane, session: str, elsewhere: Path) -> None:
    own = materialise(plane, session, "")
    assert own.runtime == "claude-code"
    opened = plane.client.call("open", title="by hand")
    with pytest.raises(InvalidInput, match="ran in no agent program"):
        materialise(plane, opened.id, "")


def test_a_resume_is_taken_back_until_something_is_said_in_it(plane: Plane, session: str, elsewhere: Path) -> None:
    made = materialise(plane, session, "codex", cwd=str(elsewhere))
    back = plane.client.call("take_back", session=made.session)
    assert (back.files, files_below(elsewhere)) == (made.files, [])
    assert made.session not in {session.id for session in plane.sessions()}
    assert told(plane, session)
    with pytest.raises(Conflict, match="was not written by a resume"):
        plane.client.call("take_back", session=session)
    again = materialise(plane, session, "codex", cwd=str(elsewhere))
    assert again.session != made.session
    _go_on(Path(again.files[0]), "codex", "and what now?")
    with pytest.raises(Conflict, match="has grown since; nothing was taken back"):
        plane.client.call("take_back", session=again.session)
    captured(plane, elsewhere, "codex")
    with pytest.raises(Conflict, match="has gone on: 1 events since"):
        plane.client.call("take_back", session=again.session)
    assert files_below(elsewhere) == [Path(again.files[0])]


def test_a_folder_that_is_reached_by_a_link_is_the_folder_itself(
    plane: Plane, session: str, elsewhere: Path, tmp_path: Path
) -> None:
    """A program sees the real path, and looks for its sessions there: Gemini CLI finds none under a link."""
    link = tmp_path / "a link"
    link.symlink_to(elsewhere)
    made = materialise(plane, session, "gemini-cli", cwd=str(link))
    assert made.cwd == str(elsewhere)
    again = materialise(plane, session, "gemini-cli", cwd=str(elsewhere))
    assert (again.session, again.files) == (made.session, made.files[:1])
