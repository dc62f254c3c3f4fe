"""Which call of which session last wrote each line of a file: what is certain, what is not, and what may be seen."""

import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.client import OpenSession, Plane
from clew.local import Local
from clew.model.access import Grant, Right, owner_of_everything
from clew.model.errors import InvalidInput, NotFound
from clew.service import Context, call
from clew.service.workspaces.same_lines import same_lines
from clew.store import Store

ME = "person:ada"
BOB = Grant(principal="person:bob", rights=frozenset([Right.SEE, Right.READ]), project="shop")


@pytest.fixture
def database() -> str:
    return "sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    home = str(tmp_path / "home")
    return Context(
        store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=home, machine="laptop"
    )


class Agent:
    """An agent at work in a folder: what it does is done, and recorded as its program would."""

    def __init__(self, context: Context, folder: Path, runtime: str = "claude-code", session: Any = None) -> None:
        self.context, self.folder, self.runtime = context, folder, runtime
        self.session: OpenSession = session or Plane(Local(context)).session("t", project="shop")
        self.id = self.session.id
        self.session.append(
            {"kind": "runtime_attached", "runtime": runtime, "cwd": str(folder), "machine": context.machine}
        )

    def keep(self) -> int:
        taken = call(self.context, "workspace_snapshot", {"session": self.id, "folder": str(self.folder)})
        return int(taken.seq)

    def write(self, name: str, text: str) -> str:
        made = self.session.call("Write", {"file_path": str(self.folder / name), "content": text})
        (self.folder / name).write_text(text)
        made.returned("ok")
        return str(made.id)

    def edit(self, name: str, old: str, new: str) -> str:
        made = self.session.call(
            "Edit", {"file_path": str(self.folder / name), "old_string": old, "new_string": new}
        )  # fmt: skip
        path = self.folder / name
        path.write_text(path.read_text().replace(old, new))
        made.returned("ok")
        return str(made.id)

    def shell(self, command: str, run: Any = None) -> str:
        made = self.session.call("Bash", {"command": command})
        if run is not None:
            run()
        made.returned("ok")
        return str(made.id)


def lines(context: Context, path: str | Path, **given: Any) -> list[tuple[str, str, str]]:
    """The cause of each line: why, the runtime and the call."""
    blamed = call(context, "blame", {"path": str(path), **given})
    found = []
    for part in blamed.ranges:
        found += [(part.why, part.runtime, part.call)] * (part.last - part.first + 1)
    assert len(found) == max(blamed.lines, 1)
    return found


def test_each_line_has_the_call_that_wrote_it_whatever_the_program(context: Context, folder: Path) -> None:
    path = folder / "a.py"
    path.write_text("one\ntwo\nthree\nfour\n")
    claude = Agent(context, folder)
    claude.keep()
    edited = claude.edit("a.py", "two", "two, of an edit")
    claude.session.call("Read", {"file_path": str(path)}).returned("one")
    claude.keep()
    shell = claude.shell("make format", lambda: path.write_text(path.read_text().replace("four", "FOUR")))
    claude.keep()
    codex = Agent(context, folder, "codex")
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n+of codex\n one\n*** End Patch"
    made = codex.session.call("apply_patch", {"input": patch})
    path.write_text("of codex\n" + path.read_text())
    made.returned("ok")
    codex.keep()
    blamed = call(context, "blame", {"path": str(path), "with_text": True})
    assert [(part.first, part.last, part.why, part.runtime, part.call, part.text) for part in blamed.ranges] == [
        (1, 1, "input", "codex", made.id, "of codex"),
        (2, 2, "before", "", "", "one"),
        (3, 3, "input", "claude-code", edited, "two, of an edit"),
        (4, 4, "before", "", "", "three"),
        (5, 5, "only", "claude-code", shell, "FOUR"),
    ]
    part = blamed.ranges[2]
    assert (part.session, part.person, part.tool, part.snapshot_session) == (claude.id, ME, "Edit", claude.id)
    assert part.before != part.after != "" != part.before
    # As it was before the shell command, asked for as a file of the session.
    assert lines(context, "a.py", session=claude.id, at=part.snapshot_seq) == [
        ("before", "", ""), ("input", "claude-code", edited), ("before", "", ""), ("before", "", ""),
    ]  # fmt: skip


def test_what_no_call_can_have_written_is_blamed_on_no_agent(context: Context, folder: Path) -> None:
    path = folder / "a"
    path.write_text("one\ntwo\nthree\nfour\n")
    agent = Agent(context, folder)
    agent.keep()
    path.write_text("ONE\ntwo\nthree\nfour\n")
    agent.keep()
    edited = agent.edit("a", "two", "TWO")
    # A person changes another line of the file that the agent edits, between the same two snapshots.
    path.write_text(path.read_text().replace("three", "THREE"))
    agent.keep()
    path.write_text(path.read_text().replace("four", "FOUR"))
    assert lines(context, path) == [
        ("outside", "", ""), ("input", "claude-code", edited), ("unclear", "", ""), ("outside", "", ""),
    ]  # fmt: skip
    # A call that had ended before the file was changed by somebody else is not certain to be the cause.
    agent.session.call("Bash", {"command": "sleep 1"}).returned("")
    blamed = call(context, "blame", {"path": str(path)})
    assert blamed.ranges[-1].why in ("only", "outside", "unclear")


def test_when_several_calls_can_be_the_cause_all_are_said(context: Context, folder: Path) -> None:
    path = folder / "a"
    path.write_text("one\n")
    agent = Agent(context, folder)
    agent.keep()
    first = agent.shell("make", lambda: path.write_text("ONE\n"))
    second = agent.shell("make test")
    agent.keep()
    [part] = call(context, "blame", {"path": str(path)}).ranges
    assert (part.why, part.session, part.call) == ("several", "", "")
    assert [other.call for other in part.calls] == [first, second]
    # A command that quotes the line, or that alone names the file, is the cause.
    quoting = agent.shell("echo a new line >> a", lambda: path.write_text("ONE\na new line\n"))
    agent.shell("ls -l /")
    agent.keep()
    assert lines(context, path)[1] == ("input", "claude-code", quoting)
    naming = agent.shell("sed -i 1d a", lambda: path.write_text("xyz\na new line\n"))
    agent.shell("true")
    agent.keep()
    assert lines(context, path) == [("named", "claude-code", naming), ("input", "claude-code", quoting)]


def test_two_edits_between_two_snapshots_have_their_own_lines(context: Context, folder: Path) -> None:
    (folder / "a").write_text("one\nmiddle\ntwo\n")
    agent = Agent(context, folder)
    agent.keep()
    first = agent.edit("a", "one", "def one():\n\n    return 1")
    second = agent.edit("a", "two", "def two():\n\n    return 2")
    agent.shell("make test")
    agent.keep()
    assert [found[2] for found in lines(context, folder / "a")] == [first, first, first, "", second, second, second]


def test_a_call_that_runs_while_a_snapshot_is_taken_is_not_forgotten(context: Context, folder: Path) -> None:
    (folder / "a").write_text("one\n")
    agent = Agent(context, folder)
    agent.keep()
    made = agent.session.call("Bash", {"command": "long"})
    agent.keep()
    (folder / "a").write_text("ONE\n")
    agent.keep()
    assert lines(context, folder / "a") == [("only", "claude-code", made.id)]


def test_renames_are_followed(context: Context, folder: Path) -> None:
    (folder / "old.py").write_text("".join(f"line {n}\n" for n in range(10)))
    agent = Agent(context, folder)
    agent.keep()
    edited = agent.edit("old.py", "line 3\n", "the third\n")
    agent.keep()
    (folder / "new").mkdir()
    agent.shell("git mv", lambda: (folder / "old.py").rename(folder / "new" / "b.py"))
    agent.keep()
    changed = agent.shell(
        "mv", lambda: (folder / "c.py").write_text((folder / "new" / "b.py").read_text() + "more\n")
    )  # fmt: skip
    (folder / "new" / "b.py").unlink()
    agent.keep()
    found = lines(context, folder / "c.py")
    assert (found[0], found[3], found[10]) == (
        ("before", "", ""), ("input", "claude-code", edited), ("only", "claude-code", changed),
    )  # fmt: skip
    # Renamed on the disk, and not yet in a snapshot.
    (folder / "c.py").rename(folder / "d.py")
    assert lines(context, folder / "d.py") == found


def test_forks_and_restores_take_the_history_along(context: Context, folder: Path, tmp_path: Path) -> None:
    (folder / "a").write_text("one\ntwo\n")
    agent = Agent(context, folder)
    agent.keep()
    edited = agent.edit("a", "two", "TWO")
    at = agent.keep()
    later = agent.edit("a", "one", "later")
    last = agent.keep()
    child = agent.session.fork(at=at)
    out = tmp_path / "child"
    call(context, "workspace_checkout", {"session": child.id, "folder": str(out)})
    codex = Agent(context, out, "codex", child)
    added = codex.shell("make", lambda: (out / "a").write_text((out / "a").read_text() + "three\n"))
    codex.keep()
    expected = [("before", "", ""), ("input", "claude-code", edited), ("only", "codex", added)]
    assert lines(context, out / "a") == lines(context, "a", session=child.id) == expected
    assert lines(context, folder / "a") == [("input", "claude-code", later), expected[1]]
    # A restore in place goes back to what the lines were, and its undo forward again.
    undo = call(context, "workspace_restore", {"session": agent.id, "at": at, "paths": ["a"]}).undo
    assert lines(context, folder / "a") == expected[:2]
    call(context, "workspace_restore", {"session": agent.id, "at": undo or last})
    assert lines(context, folder / "a") == [("input", "claude-code", later), expected[1]]


def test_parts_of_sessions_that_the_caller_may_not_read_are_hidden(context: Context, folder: Path) -> None:
    (folder / "a").write_text("one\ntwo\nthree\n")
    mine, private = Agent(context, folder), Agent(context, folder, "codex")
    call(context, "privacy", {"session": private.id, "private": True})
    mine.keep()
    secret = private.edit("a", "two", "TWO")
    private.keep()
    edited = mine.edit("a", "three", "THREE")
    mine.keep()
    bob = msgspec.structs.replace(
        context, principal="person:bob", grants=(BOB,), _cache={}
    )  # fmt: skip
    blamed = call(bob, "blame", {"path": "a", "session": mine.id})
    found = lines(bob, "a", session=mine.id)
    assert found == [("before", "", ""), ("hidden", "", ""), ("input", "claude-code", edited)]
    assert not {private.id.encode(), secret.encode()} & set(msgspec.json.encode(blamed).split(b'"'))
    assert lines(context, "a", session=mine.id)[1] == ("input", "codex", secret)
    with pytest.raises(NotFound):
        call(bob, "blame", {"path": "a", "session": private.id})
    server = msgspec.structs.replace(context, answers_leave_machine=True, _cache={})
    with pytest.raises(InvalidInput, match="name the session"):
        call(server, "blame", {"path": str(folder / "a")})


def test_odd_files_get_a_clear_answer(context: Context, folder: Path) -> None:
    agent = Agent(context, folder)
    long = folder / "long"
    long.write_text("x" * 10_000_000 + "\n")
    (folder / "binary").write_bytes(b"\0\1")
    odd = folder / os.fsdecode(b"caf\xe9\n;rm -rf")
    odd.write_bytes(b"\xff\xfe latin\r\nlone \r return\nlast")
    (folder / "link").symlink_to("long")
    agent.keep()
    built = agent.shell("make", lambda: long.write_text("y" * 10_000_000))
    (folder / "binary").write_bytes(b"\0\2")
    agent.keep()
    odd.write_bytes(odd.read_bytes() + b" \xff\n")
    blamed = call(context, "blame", {"path": str(long), "with_text": True})
    assert (blamed.lines, blamed.note) == (0, "the file has 10,000,000 bytes; up to 8,388,608 are blamed line by line")
    assert [(part.why, part.call) for part in blamed.ranges] == [("only", built)]
    assert call(context, "blame", {"path": "binary", "session": agent.id}).note == "the file is binary"
    assert call(context, "blame", {"path": "link", "session": agent.id}).ranges[0].why == "before"
    assert [found[0] for found in lines(context, odd)] == ["before", "before", "outside"]
    kept = call(context, "blame", {"path": "caf\\xe9\n;rm -rf", "session": agent.id, "with_text": True})
    assert (kept.lines, kept.ranges[0].text) == (3, "\ufffd\ufffd latin\r\nlone \r return\nlast")
    assert call(context, "blame", {"path": str(folder / "long"), "session": agent.id}).seq > 0
    (folder / "new").write_text("")
    assert call(context, "blame", {"path": str(folder / "new")}).ranges == []
    for path, error in (
        ("nothing", NotFound),
        (".", InvalidInput),
        ("../a", InvalidInput),
        ("/etc/passwd", InvalidInput),
    ):
        with pytest.raises(error):
            call(context, "blame", {"path": path, "session": agent.id})
    with pytest.raises(NotFound, match="no snapshot of a session"):
        call(context, "blame", {"path": "/etc/passwd"})


def test_a_snapshot_says_which_files_changed_with_both_digests(context: Context, folder: Path) -> None:
    agent = Agent(context, folder)
    (folder / "d").mkdir()
    (folder / "d" / "a").write_text("1")
    (folder / "gone").write_text("1")
    agent.keep()
    (folder / "d" / "a").write_text("2")
    (folder / "gone").unlink()
    (folder / "new").write_text("3")
    (folder / ".env").write_text("PIN=1234")
    given = {"session": agent.id, "folder": str(folder), "with_secrets": True}
    seq = call(context, "workspace_snapshot", given).seq
    [body] = [event.body for event in agent.session.events() if event.seq == seq]
    changes = {change.path: (bool(change.before), bool(change.after), change.changed_at > 0) for change in body.changes}
    assert changes == {"d/a": (True, True, True), "gone": (True, False, False), "new": (False, True, True)}
    assert body.changed == 4, "a secret is counted, and its digest is not in the event"


def test_a_comparison_names_the_calls_that_changed_each_file(context: Context, folder: Path) -> None:
    for name in ("a", "b", "c", "gone"):
        (folder / name).write_text("1")
    agent = Agent(context, folder)
    first = agent.keep()
    edited = agent.write("a", "2")
    agent.keep()
    shell = agent.shell("make", lambda: (folder / "b").write_text("2"))
    (folder / "gone").unlink()
    agent.keep()
    again = agent.write("a", "3")
    (folder / "c").write_text("by a person")
    last = agent.keep()
    found = call(context, "workspace_diff", {"left": agent.id, "right": agent.id, "at": first, "upto": last})
    causes = {change.path: change.causes for change in found.changes}
    assert {path: [(cause.why, [by.call for by in cause.calls]) for cause in of] for path, of in causes.items()} == {
        "a": [("named", [again]), ("named", [edited])],
        "b": [("only", [shell])],
        "c": [("outside", [])],
        "gone": [("only", [shell])],
    }
    [a, *_] = found.changes
    assert (a.before_digest, a.after_digest) == (a.causes[1].before, a.causes[0].after)
    assert a.causes[1].after == a.causes[0].before
    log = call(context, "workspace_log", {"session": agent.id})
    assert [(point.changed, [by.call for by in point.calls]) for point in log] == [
        (2, [again]), (2, [shell]), (1, [edited]), (0, []),
    ]  # fmt: skip
    fork = agent.session.fork(at=first)
    forks = call(context, "workspace_diff", {"left": agent.id, "right": fork.id})
    assert {change.causes for change in forks.changes} == {None}


def test_the_lines_that_stay_are_found_whatever_the_texts() -> None:
    chance = random.Random(5)
    for size in (0, 1, 3, 30, 400):
        for kinds in (1, 2, 50, 10_000):
            old = [b"%d\n" % chance.randrange(kinds) for _ in range(size)]
            new = list(old)
            for _ in range(chance.randrange(8)):
                at = chance.randrange(len(new) + 1)
                new[at : at + chance.randrange(4)] = [b"%d\n" % chance.randrange(kinds)] * chance.randrange(4)
            blocks = same_lines(old, new)
            ends = (0, 0)
            for old_at, new_at, length in blocks:
                assert (old_at >= ends[0], new_at >= ends[1], length > 0) == (True, True, True)
                assert old[old_at : old_at + length] == new[new_at : new_at + length]
                ends = (old_at + length, new_at + length)
    assert same_lines([b"a", b"b", b"c"], [b"x", b"b", b"c", b"a"]) == [(1, 1, 1), (2, 2, 1)]
