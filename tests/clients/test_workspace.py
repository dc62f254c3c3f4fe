"""The files of a session of a real client, kept by its hooks: forked, gone on with in another client, and blamed."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients.clew_cli import Clew, Json
from clients.drivers import CLIENTS, Client, Place
from clients.model_server import ModelServer, scripted
from clients.wire import Answer, Call

pytestmark = pytest.mark.clients

PATIENCE_SECONDS = 60
MAIN = "import sys\n\n\ndef main():\n    return 0\n"


class Person:
    """Somebody whose Claude Code is connected to clew, and whose projects keep their files."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder)
        self.clew = Clew(folder / "store")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.place.home), "LANG": "C.UTF-8"}
        subprocess.run(["git", "init", "-q", "-b", "main", str(self.place.cwd)], check=True)
        self("setting", "set", "workspaces", "on")
        (self.place.home / ".claude").mkdir()
        self("connect", "claude-code", "--yes")

    def __call__(self, *arguments: str) -> str:
        return self.clew.run(*arguments, env=self.environment)

    def turn(self, client: Client, argv: Callable[[str], list[str]], prompt: str, *calls: Call) -> str:
        """One turn of a client, whose model makes these calls one after the other; gives the client's own id."""
        prompt = scripted(prompt, *(Answer("", (call,)) for call in calls), Answer("Done."))
        with ModelServer() as model:
            ran = client.run(self.place, model.url, argv(prompt)).checked()
        return client.native_id(ran)

    def kept(self, session: str, path: Path, text: str) -> int:
        """The newest snapshot of a session, when it has this text in a file: hooks take them in the background."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            points = self.clew.objects("workspace", "log", session, env=self.environment)
            for point in points:
                at = ("--at", str(point["seq"]))
                [file] = self.clew.objects("workspace", "cat", session, path.name, *at, env=self.environment)
                if file["text"] == text:
                    return int(point["seq"])
            assert time.monotonic() < end, points
            time.sleep(0.1)

    def session(self) -> str:
        """The session that a hook has captured."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (found := self.clew.objects("sessions", env=self.environment)):
            assert time.monotonic() < end, "no hook has captured a session"
            time.sleep(0.1)
        return str(found[0]["id"])

    def blamed(self, path: Path) -> list[tuple[str, str, str, str]]:
        """For each line its text, how its call is known, the program, and what the call was given."""
        [blamed] = self.clew.objects("blame", str(path), env=self.environment)
        lines = path.read_text().splitlines()
        found = []
        for part in blamed["ranges"]:
            given = self.input_of(part)
            found += [(line, part["why"], part["runtime"], given) for line in lines[part["first"] - 1 : part["last"]]]
        return found

    def input_of(self, part: Json) -> str:
        """The text that a call wrote, or its command."""
        if not part["call"]:
            return ""
        events = self.clew.objects("show", part["session"], "--events", env=self.environment)
        [made] = [event for event in events if event["kind"] == "call_made" and event["call"] == part["call"]]
        given: dict[str, Any] = made["input"]
        return str(given.get("new_string") or given.get("command") or given.get("cmd") or given.get("content"))


def edit(path: Path, old: str, new: str) -> tuple[Call, Call]:
    """Claude Code edits only a file that it has read."""
    read = Call("Read", {"file_path": str(path)})
    return read, Call("Edit", {"file_path": str(path), "old_string": old, "new_string": new})


def test_files_fork_into_another_client_and_each_line_has_its_call(tmp_path: Path) -> None:
    person = Person(tmp_path)
    claude, codex, cwd = CLIENTS["claude-code"], CLIENTS["codex"], person.place.cwd
    main, notes = cwd / "main.py", cwd / "notes.txt"
    main.write_text(MAIN)
    native = person.turn(claude, claude.fresh, "Look at it.", Call("Read", {"file_path": str(main)}))
    session = person.session()
    person.kept(session, main, MAIN)

    def go_on(prompt: str) -> list[str]:
        return claude.headless(claude.interactive_resume(native), prompt)

    # Three turns: an edit, a shell command, another edit.
    person.turn(claude, go_on, "Say hello.", *edit(main, "    return 0", "    print('hello')\n    return 0"))
    person.kept(session, main, MAIN.replace("    return", "    print('hello')\n    return"))
    sed = f"sed -i 's/import sys/import os/' {main}"
    shell = Call(*claude.call(f"{sed} && echo first > {notes}"))
    person.turn(claude, go_on, "Use os.", shell)
    second_text = main.read_text()
    second = person.kept(session, main, second_text)
    person.turn(claude, go_on, "End with one.", *edit(main, "return 0", "return 1"))
    third_text = main.read_text()
    person.kept(session, main, third_text)

    # The fork at the second turn has its files in a folder of its own, and goes on there in Codex.
    own = tmp_path / "fork"
    fork = person.clew.objects(
        "fork", session, "--at", str(second), "--workspace", "--dir", str(own), env=person.environment
    )[0]["id"]
    assert files(own) == {"main.py": second_text, "notes.txt": "first\n"}
    person.place.cwd = own
    with ModelServer() as model:
        codex.settle(person.place, model.url)
        environment = codex.environment(person.place, model.url)
        resumed = person.clew.resume_in(fork, codex.runtime, cwd=own, env=environment)
        command = "echo second >> notes.txt && printf 'main()\\n' >> main.py"
        prompt = scripted("Go on.", Answer("", (Call(*codex.call(command)),)), Answer("Done."))
        codex.run(person.place, model.url, codex.headless(resumed.command, prompt), more=resumed.env).checked()
    person("capture")
    person("workspace", "snapshot", str(own), "--session", resumed.session)

    # Both folders have exactly what they should, and the first is as Claude Code left it.
    assert files(own) == {"main.py": second_text + "main()\n", "notes.txt": "first\nsecond\n"}
    assert files(cwd) == {"main.py": third_text, "notes.txt": "first\n"}

    hello, os_used = "    print('hello')\n    return 0", f"{sed} && echo first > {notes}"
    before = [(text, "before", "", "") for text in ("", "", "def main():")]
    by_claude = [
        ("import os", "input", "claude-code", os_used), *before,
        ("    print('hello')", "input", "claude-code", hello),
    ]  # fmt: skip
    assert person.blamed(main) == [*by_claude, ("    return 1", "input", "claude-code", "return 1")]
    assert person.blamed(own / "main.py") == [
        *by_claude, ("    return 0", "before", "", ""), ("main()", "input", "codex", command),
    ]  # fmt: skip
    assert person.blamed(own / "notes.txt") == [
        ("first", "input", "claude-code", os_used), ("second", "input", "codex", command),
    ]  # fmt: skip


def files(folder: Path) -> dict[str, str]:
    """What is in a folder, without git's own files."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }
