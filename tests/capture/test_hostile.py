"""Files that mean harm, or that nobody thought of: each is reported, the rest is captured, nothing crashes or waits."""

import json
import os
import random
import resource
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.model.errors import InvalidInput
from clew.model.events import MessageAdded, Opaque
from clew.runtimes.contract import Format
from support import claude
from support.captures import capture, capture_paths, events, native, only, said
from support.children import environment
from support.planes import plane_on

OTHER = "99999999-2222-4333-8444-555555555555"


def good(home: Path) -> Path:
    path = claude.transcript(home, session=OTHER)
    path.write_bytes(claude.lines([claude.says("good", None, "all is well")]))
    return path


def well(plane: Plane, home: Path) -> None:
    """The good file beside the bad ones was captured."""
    assert [said(plane, report.session) for report in capture(plane, home) if OTHER in report.path] == [["all is well"]]


# Names and kinds of files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"a\x1b[31mb", b" ", b"'; DROP TABLE event; --", b"%s%n{}#?"])
def test_a_name_of_any_bytes_is_captured_and_found_again(plane: Plane, person: Path, name: bytes) -> None:
    good(person)
    for folder in (b"-home-me-app", b"-odd-" + name):
        path = os.path.join(os.fsencode(person), b".claude/projects", folder, name + b".jsonl")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(claude.lines([claude.says(f"one {folder!r}", None, "hello")]))
    first = capture(plane, person)
    assert [one.status for one in first] == ["new"] * 3
    assert {report.session for report in capture(plane, person) if report.status == "same"} == {
        one.session for one in first
    }
    for one in first:
        assert said(plane, one.session)
    well(plane, person)


def test_a_pipe_a_socket_a_folder_and_a_loop_are_no_sessions(plane: Plane, person: Path) -> None:
    folder = good(person).parent
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    (folder / "to-pipe.jsonl").symlink_to(folder / "pipe.jsonl")
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(folder)  # The name of a socket is short.
        one.bind("socket.jsonl")
        os.chdir(here)
        well(plane, person)
        assert len(capture(plane, person)) == 1
        assert len(capture_paths(plane, folder)) == 1
        for name in ("pipe.jsonl", "to-pipe.jsonl", "socket.jsonl", "loop.jsonl"):
            with pytest.raises(InvalidInput):
                capture_paths(plane, folder / name)


def test_a_file_that_became_a_pipe_since_it_was_found_is_reported(plane: Plane, person: Path) -> None:
    path = good(person)
    finds = plane.client.call("capture_find", home=str(person))
    path.unlink()
    os.mkfifo(path)
    [report] = plane.client.call("capture", files=finds.changed)
    assert (report.status, report.records) == ("failed", 0)
    assert "not a file" in report.error


def test_links_that_lead_back_are_not_followed_for_ever(plane: Plane, person: Path) -> None:
    folder = good(person).parent / "s" / "subagents"
    folder.mkdir(parents=True)
    for name in "abcd":
        (folder / name).symlink_to(folder)
    (folder / "agent-1.jsonl").write_bytes(claude.lines([claude.says("sub", None, "below")]))
    assert len(capture(plane, person)) == 2
    assert len(capture_paths(plane, person)) == 2


def test_one_file_under_two_names_is_one_session(plane: Plane, person: Path) -> None:
    path = good(person)
    (path.parent.parent / "-home-me-link").symlink_to(path.parent)
    assert len(capture(plane, person)) == 1
    assert len(capture_paths(plane, path, path, path.parent)) == 1
    assert len(plane.sessions()) == 1


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    code = """
import json, os, sys
from pathlib import Path
from support import claude
from support.captures import capture
from support.planes import plane_on
home = Path(sys.argv[1])
claude.transcript(home).write_bytes(claude.lines(claude.story()))
secret = claude.transcript(home, session="99999999-2222-4333-8444-555555555555")
secret.write_bytes(claude.lines(claude.story()))
secret.chmod(0)
closed = claude.transcript(home, folder="-home-me-closed").parent
closed.chmod(0)
with plane_on(f"sqlite:///{home}/clew.db") as plane:
    print(json.dumps([[one.status, one.error] for one in capture(plane, home)]))
closed.chmod(0o700)
"""
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents:
        if stat.S_IMODE(folder.stat().st_mode) & 1 == 0 and folder.owner() == Path.home().owner():
            folder.chmod(folder.stat().st_mode | 0o011)
    home = tmp_path / "person"
    # Root can read everything, so as root the capture is run as somebody else.
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    done = subprocess.run(
        [*as_nobody, sys.executable, "-c", code, str(home)],
        env={**environment(), "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)) == [["failed", "Permission denied"], ["new", None]]


# What is in a record --------------------------------------------------------------------------------------------------

NUL = "a\0b"
NAMES = {
    "uuid": NUL, "parentUuid": NUL, "cwd": f"/home/{NUL}", "version": NUL, "gitBranch": NUL, "agentId": NUL,
    "sessionId": NUL, "timestamp": NUL, "type": NUL,
}  # fmt: skip


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize(
    "value", [NUL, "ü" * 999, "🧵" * 40_000, 7, None, [], {"a": [None]}, True, "~", "~x", "@", "/"]
)
def test_any_value_in_any_field_is_captured(plane: Plane, person: Path, field: str, value: Any) -> None:
    good(person)
    records = [claude.says(f"u{i}", f"u{i - 1}" if i else None, f"text {i}") | {field: value} for i in range(2)]
    claude.transcript(person).write_bytes(claude.lines(records))
    [report] = [report for report in capture(plane, person) if OTHER not in report.path]
    assert report.error is None
    assert report.records == 2
    assert native(plane, report.session) == claude.transcript(person).read_bytes()
    assert all(verified.ok for verified in plane.verify())
    well(plane, person)


def test_a_nul_in_every_text_is_captured(plane: Plane, person: Path) -> None:
    good(person)
    title = {"type": "custom-title", "customTitle": f"title {NUL}", "sessionId": NUL}
    result = {"tool_use_id": NUL, "type": "tool_result", "content": NUL}
    records = [
        {**claude.says("u", None, f"prompt {NUL}"), **NAMES, "uuid": claude.id_of("u"), "type": "user"},
        claude.answers(
            "a", "u", claude.text(NUL), {"type": "thinking", "thinking": NUL, "signature": NUL}, message=NUL
        ),
        claude.answers("c", "a", {"type": "tool_use", "id": NUL, "name": NUL, "input": {NUL: [NUL]}}, message=NUL),
        claude.line("r", "c", "user", {"role": "user", "content": [result]}),
        title,
        {"type": NUL, "uuid": NUL, NUL: NUL},
    ]
    path = claude.transcript(person, folder="-home-me-nul")
    path.write_bytes(claude.lines(records))
    [report] = [report for report in capture(plane, person) if OTHER not in report.path]
    assert (report.error, report.records, report.quarantined) == (None, 6, 0)
    assert said(plane, report.session)[0] == f"prompt {NUL}"
    assert native(plane, report.session) == path.read_bytes()
    assert [session.title for session in plane.sessions() if session.id == report.session] == ["title a\ufffdb"]
    well(plane, person)


@pytest.mark.parametrize(
    ("line", "quarantined"),
    [
        pytest.param(b'{"type":"x","n":NaN}', 1, id="nan"),
        pytest.param(b'{"type":"x","n":-Infinity}', 1, id="infinity"),
        pytest.param(b'{"type":"x","n":1e999}', 0, id="beyond-float"),
        pytest.param(b'{"type":"x","n":' + b"9" * 5000 + b"}", 0, id="beyond-int"),
        pytest.param(b'{"type":"x","type":"y","uuid":"1","uuid":"2"}', 0, id="keys-twice"),
        pytest.param(b'{"type":"x","s":"\\ud800"}', 0, id="half-a-pair"),
        pytest.param(b'{"type":"x","\\udc00\\ud800":"\\ud83e\\uddf5"}', 0, id="pair-turned-round"),
        pytest.param(b'{"type":"x","s":"\\u0000\\u001b[31m\\u202e"}', 0, id="control-characters"),
        pytest.param(b"\xef\xbb\xbf" + b'{"type":"x"}', 1, id="byte-order-mark"),
        pytest.param('{"type":"x","s":"ü"}'.encode("utf-16"), 1, id="utf-16"),
        pytest.param(b'{"a":1}{"b":2} garbage', 1, id="good-then-garbage"),
        pytest.param(b'{"a":1}garbage{"b":2}', 1, id="garbage-between"),
        pytest.param(b'{"type":"user","message":{"role":"user","content":"x"},"uu', 1, id="torn-with-a-part-inside"),
        pytest.param(b'{"type":"x","message":' + b"[" * 450 + b"]" * 450 + b"}", 1, id="deeper-than-anyone-reads"),
    ],
)
def test_a_hostile_line_is_accounted_for(plane: Plane, person: Path, line: bytes, quarantined: int) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()) + line + b"\n" + claude.lines([claude.says("end", "a5", "the end")]))
    report = only(plane, person)
    assert report.quarantined == quarantined
    assert said(plane, report.session)[-1] == "the end"
    assert native(plane, report.session) == path.read_bytes()
    assert not [e for e in events(plane, report.session) if isinstance(e.body, MessageAdded) and e.body.text == "x"]


def test_what_nests_deeply_is_read_back_from_deep_inside_a_program(plane: Plane, person: Path) -> None:
    deep: Any = "x"
    for _ in range(390):
        deep = [deep]
    path = claude.transcript(person)
    path.write_bytes(claude.lines([claude.answers("a", None, {**claude.calls("t", ""), "input": {"deep": deep}})]))
    session = only(plane, person).session

    def at_depth(depth: int) -> int:
        return at_depth(depth - 1) if depth else len(events(plane, session))

    assert at_depth(400)


def test_a_line_without_end_that_is_a_number_waits(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()) + b"12")
    assert only(plane, person).quarantined == 1
    with path.open("ab") as file:
        file.write(b"34\n")
    report = only(plane, person)
    assert report.records == len(claude.story()) + 1
    assert [e.body.raw for e in events(plane, report.session) if isinstance(e.body, Opaque)][-1] == "1234"


def test_damage_read_in_cuts_is_the_damage_read_at_once(store_url: str, tmp_path: Path, person: Path) -> None:
    whole = claude.lines(claude.story()[:3])
    for damage in (b'{"a":1}{"b":2} garbage', b'{"a":1}garbage{"b":2}', b'{"a":', b"12", b'{"a":1}{"b":2}', b"\0\0{}"):
        whole += damage + b"\n"
    path = claude.transcript(person)
    chance = random.Random(2)
    cuts = sorted(chance.sample(range(1, len(whole)), 120))
    told = []
    for name, ends in (("once", [len(whole)]), ("cuts", [*cuts, len(whole)])):
        url = store_url if name == "cuts" else f"sqlite:///{tmp_path / name}.db"
        with plane_on(url) as plane:
            path.write_bytes(b"")
            at = 0
            for end in ends:
                with path.open("ab") as file:
                    file.write(whole[at:end])
                at = end
                report = only(plane, person)
            assert native(plane, report.session) == whole
            told.append((report.records, report.quarantined, [e.source for e in events(plane, report.session)]))
    assert told[0] == told[1]


# Size -----------------------------------------------------------------------------------------------------------------


def test_what_is_huge_is_captured_in_little_memory(tmp_path: Path, person: Path) -> None:
    path = claude.transcript(person)
    [line] = claude.lines([claude.says("marker", None, "word " * 900)]).splitlines(keepends=True)
    with path.open("wb") as file:
        for i in range(35_000):
            file.write(line.replace(claude.id_of("marker").encode(), b"%036d" % i))
    assert path.stat().st_size > 150_000_000
    binary = claude.transcript(person, session=OTHER)
    binary.write_bytes(claude.lines([claude.says("x", None, "x")]) + random.Random(1).randbytes(10_000_000))
    code = """
import sys
from pathlib import Path
from support.captures import capture
from support.planes import plane_on
with plane_on(sys.argv[1]) as plane:
    for one in capture(plane, Path(sys.argv[2])):
        print(one.records, one.error, Path(one.path).stem, sep="|")
    path = Path(sys.argv[2]) / ".claude/projects/-home-me-app/11111111-2222-4333-8444-555555555555.jsonl"
    path.touch()
    print(*[one.status for one in capture(plane, Path(sys.argv[2]))])
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"#")
    print(*[one.status for one in capture(plane, Path(sys.argv[2]))])
# Not getrusage: that keeps the peak of whoever started this process.
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    url = f"sqlite:///{tmp_path / 'clew.db'}"
    done = subprocess.run(
        [sys.executable, "-c", code, url, str(person)], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *reports, touched, edited, memory = done.stdout.splitlines()
    assert [one.split("|")[:2] for one in reports[:1]] == [["35000", "None"]]
    assert touched.split() == ["same", "same"]
    assert edited.split() == ["same", "rewritten"] or edited.split() == ["rewritten", "same"]
    assert int(memory) < 300, f"{memory} MB"


def test_a_line_of_seventy_megabytes_is_kept(person: Path, tmp_path: Path) -> None:
    path = claude.transcript(person)
    huge = claude.says("huge", "a5", "x" * 70_000_000)
    path.write_bytes(claude.lines([*claude.story(), huge, claude.says("after", "huge", "still here")]))
    with plane_on(f"sqlite:///{tmp_path / 'huge.db'}") as plane:
        report = only(plane, person)
        assert report.records == len(claude.story()) + 2
        assert native(plane, report.session) == path.read_bytes()
        kinds = [event.kind for event in events(plane, report.session)]
        assert kinds.count("clew.too_large") == 1


def test_a_damaged_line_costs_no_more_than_its_length_deserves(person: Path, tmp_path: Path) -> None:
    # A hundred beginnings, each of which is good for ten million values until it turns out to be none.
    line = b'{"a":' * 100 + b"[" + b"[]," * 5_000_000
    claude.transcript(person).write_bytes(claude.lines(claude.story()) + line + b"\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with plane_on(f"sqlite:///{tmp_path / 'costly.db'}") as plane:
        assert only(plane, person).quarantined == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


def test_a_rewrite_of_everything_takes_no_time_squared(person: Path, tmp_path: Path) -> None:
    path = claude.transcript(person)
    names = [f"u{i}" for i in range(6000)]
    with plane_on(f"sqlite:///{tmp_path / 'rewrite.db'}") as plane:
        for word in ("before", "after"):
            path.write_bytes(
                claude.lines(
                    claude.says(one, names[i - 1] if i else None, f"{word} {one}") for i, one in enumerate(names)
                )
            )
            before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            session = only(plane, person).session
            assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20
        assert said(plane, session) == [f"after {name}" for name in names]


def test_thousands_of_files_are_captured(person: Path, tmp_path: Path) -> None:
    for i in range(2_000):
        path = claude.transcript(person, session=f"{i:08d}-0000-4000-8000-000000000000", folder=f"-home-me-{i % 50}")
        path.write_bytes(claude.lines([claude.says(f"u{i}", None, f"file {i}")]))
    with plane_on(f"sqlite:///{tmp_path / 'many.db'}") as plane:
        first = capture(plane, person)
        assert {(one.status, one.records) for one in first} == {("new", 1)}
        assert len({one.session for one in first}) == 2_000
        assert {report.status for report in capture(plane, person)} == {"same"}


# One file must not keep the others out --------------------------------------------------------------------------------


def test_an_adapter_that_breaks_breaks_only_its_own_file(
    plane: Plane, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.runtimes.adapters import claude_code
    from clew.service.capture import discovery

    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()))
    good(person)
    [format] = claude_code.RUNTIME.formats

    def identify(path: Any, first: bytes) -> Any:
        if OTHER not in str(path):
            raise RuntimeError("no idea")
        return claude_code.identify(path, first)

    broken = {name: getattr(format, name) for name in Format.__struct_fields__} | {"identify": identify}
    monkeypatch.setattr(discovery, "format_of", lambda found: Format(**broken))
    reports = {report.status: report for report in capture(plane, person)}
    assert reports["failed"].error == "RuntimeError: no idea"
    assert reports["new"].records == 1


def test_a_session_that_somebody_holds_is_reported_and_captured_next_time(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()))
    session = only(plane, person).session
    good(person)
    lease = plane.client.call("lease_acquire", session=session, holder="person:bob", seconds=600)
    with path.open("ab") as file:
        file.write(claude.lines([claude.says("u3", "a5", "one more")]))
    for _ in range(2):
        [held] = [report for report in capture(plane, person) if OTHER not in report.path]
        assert (held.status, held.session) == ("failed", "")
        assert "being written by" in str(held.error)
    well(plane, person)
    plane.client.call("lease_release", session=session, lease=lease.epoch)
    [report] = [report for report in capture(plane, person) if OTHER not in report.path]
    assert (report.status, report.records) == ("grown", len(claude.story()) + 1)


def test_a_closed_session_stays_closed_when_nothing_new_was_said(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()))
    session = only(plane, person).session
    plane.client.call("close", session=session)
    path.write_bytes(claude.lines(one for one in claude.story() if one["type"] != "mode"))
    assert only(plane, person).status == "rewritten"
    assert plane.client.call("show", session=session).session.state == "closed"
