"""The commands, as people run them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clew.cli.run import run as clew_run
from clew.model.ids import new_id
from clew.service import call
from server.running import Running, writer
from sync.machines import PROJECT, texts

pytestmark = pytest.mark.parametrize("database", ["sqlite"])


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Clew = Callable[..., Done]


@pytest.fixture
def clew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Clew:
    """Runs `clew` on a machine of its own; in this process, because most of a short run is starting."""

    def run(box: str, *words: str, stdin: str = "", **more: str) -> Done:
        given = tmp_path / "stdin"
        given.write_text(stdin)
        home = {"CLEW_HOME": str(tmp_path / box), "CLEW_PRINCIPAL": "person:me", "CODEX_HOME": str(tmp_path / "codex")}
        with monkeypatch.context() as patched, open(given) as standard_input:
            for name, value in {**home, **more}.items():
                patched.setenv(name, value)
            patched.setattr(sys, "stdin", standard_input)
            patched.setattr(sys, "argv", ["clew", *words])
            capsys.readouterr()
            code = clew_run()
            return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def key(running: Running) -> str:
    return running.key("person:ada", writer("person:ada", project=PROJECT))


def objects(done: Done) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_from_a_new_remote_to_a_session_on_another_machine(
    running: Running, clew: Clew, key: str, tmp_path: Path
) -> None:
    added = clew("a", "remote", "add", running.address, stdin=key)
    assert added.returncode == 0, added.stderr
    assert added.stdout == f"team is {running.address}, where you are person:ada\n"
    assert (tmp_path / "a" / "keys" / "team").stat().st_mode & 0o777 == 0o600
    [opened] = objects(clew("a", "open", "--project", PROJECT, "--title", "Fix the lock", "--json"))
    id = opened["id"]
    clew("a", "append", id, stdin='{"kind": "message_added", "role": "user", "text": "why does it lock?"}')
    nothing = clew("a", "push")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "nothing is shared with team yet" in nothing.stderr
    assert clew("a", "remote", "share", "shpo").returncode == 3
    assert clew("a", "remote", "share", PROJECT).returncode == 0
    [listed] = objects(clew("a", "remote", "list", "--json"))
    assert (listed["who"], listed["projects"], listed["behind"], listed["pushed_at"]) == ("person:ada", [PROJECT], 2, 0)
    [pushed] = objects(clew("a", "push", "--json"))
    assert (pushed["sessions"], pushed["events"]) == (1, 1)
    assert "up to date" in clew("a", "remote", "list").stdout

    clew("b", "remote", "add", running.address, "--name", "crew", stdin=key)
    missing = clew("b", "show", id)
    assert (missing.returncode, f"`clew pull {id}` may bring it" in missing.stderr) == (3, True)
    resumed = clew("b", "resume", id[:10], "--in", "codex", "--cwd", str(tmp_path), "--print")
    assert resumed.returncode == 0, resumed.stderr
    assert "pulling it from crew" in resumed.stderr
    assert "codex resume" in resumed.stdout
    assert "nothing new" in clew("b", "pull", id).stderr
    clew("b", "append", id, stdin='{"kind": "message_added", "role": "assistant", "text": "use WAL"}')
    assert "1" in clew("b", "push", id).stdout
    assert texts(running.authenticator.store, id) == ["why does it lock?", "use WAL"]

    far = clew("c", "show", id, "--events", "--json", CLEW_STORE=running.address, CLEW_KEY=key)
    assert [one.get("text") for one in objects(far)] == [None, "why does it lock?", "use WAL"]
    last = clew("c", "tail", id, "-n", "1", "--json", CLEW_STORE=running.address, CLEW_KEY=key)
    assert [one["seq"] for one in objects(last)] == [3]
    assert objects(clew("c", "sessions", "--json", CLEW_STORE=running.address, CLEW_KEY=key))[0]["id"] == id
    assert clew("c", "capture", CLEW_STORE=running.address, CLEW_KEY=key).returncode == 2
    removed = clew("a", "remote", "remove", "team", "--yes")
    assert removed.returncode == 0
    assert not (tmp_path / "a" / "keys" / "team").exists()


def test_what_is_wrong_is_said_and_nothing_is_kept(running: Running, clew: Clew, key: str, tmp_path: Path) -> None:
    bad = clew("a", "remote", "add", running.address, stdin=key.replace(key[-4:], "0000"))
    assert (bad.returncode, (tmp_path / "a" / "keys").exists()) == (5, False)
    for url in ("https://ada:hunter2@clew.example", "http://clew.example"):
        refused = clew("a", "remote", "add", url, stdin=key)
        assert refused.returncode == 2
        assert "hunter2" not in refused.stderr
    assert clew("a", "pull", new_id()).returncode == 3
    assert "no key for https://clew.example" in clew("a", "sessions", CLEW_STORE="https://clew.example").stderr
    clew("a", "remote", "add", running.address, stdin=key)
    [opened] = objects(clew("a", "open", "--project", "elsewhere", "--json"))
    refused = clew("a", "push", opened["id"], "--json")
    assert refused.returncode == 4
    assert "no grant gives person:ada" in json.loads(refused.stdout)["refused"][opened["id"]]
    assert opened["id"] in clew("a", "remote", "list").stderr
    (tmp_path / "a" / "keys" / "team").chmod(0o644)
    assert "can be read by other users" in clew("a", "push").stderr
    secret = call(running.owner, "open", {"project": "elsewhere"}).id
    (tmp_path / "a" / "keys" / "team").chmod(0o600)
    for id in (secret, new_id()):
        told = f"error: team has no session {id!r} that you may read; was it pushed?\n"
        assert clew("a", "pull", id).stderr == told
