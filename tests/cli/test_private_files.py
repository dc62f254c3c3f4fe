"""What clew writes belongs to its user alone, whatever the umask allows and whichever command runs first."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from clew.cli.run import clew as commands
from clew.model.errors import ClewError, NotFound
from clew.server.login.own_secret import own_secret
from clew.service.capture.in_background import Failure, save_failures
from clew.service.privacy import mask_key
from clew.service.replication import remotes

# These run until they are stopped; `clew up` is in tests/server.
ENDLESS = {"up", "demo", "serve", "watch", "worker", "mcp"}
# These ask which file standard input is, and so run in a process of their own.
READ_INPUT = {"append", "follow"}
CLAUDE = (
    '{"type":"user","uuid":"u1","sessionId":"11111111-1111-4111-8111-111111111111","cwd":"/w",'
    '"timestamp":"2026-10-05T10:00:00Z","message":{"role":"user","content":"hello"}}\n'
)
HI = '{"kind": "message_added", "role": "user", "text": "hi"}\n'
OPEN_UMASK = "import os, sys; os.umask(0); from clew.cli import main; main()"


def every_command() -> Iterator[list[str]]:
    """Each command with a value for each argument that it needs."""
    context = click.Context(commands)
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        parts = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for part, inner in parts:
            values = [_value(param) for param in inner.params if isinstance(param, click.Argument) and param.required]
            if name not in ENDLESS:
                yield [name, *filter(None, [part]), *values]


def _value(argument: click.Argument) -> str:
    choices = getattr(argument.type, "choices", None)
    return str(choices[0]) if choices else "1" if argument.type is click.INT else "x"


def run(person: Path, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], "HOME": str(person), "CLEW_HOME": str(person / ".config" / "clew")}
    return subprocess.run(
        [sys.executable, "-c", OPEN_UMASK, *words], env=environment, cwd=person, input=stdin, text=True,
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip


def public(folder: Path) -> dict[str, str]:
    """What other accounts may do with anything in a folder."""
    entries = [folder, *folder.rglob("*")] if folder.exists() else []
    modes = {str(path): stat.S_IMODE(path.lstat().st_mode) for path in entries if not path.is_symlink()}
    return {path: oct(mode) for path, mode in modes.items() if mode & 0o077}


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Nothing is kept from others by itself."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_a_first_command_makes_private_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    for name in [name for name in os.environ if name.startswith("CLEW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    if words[0] in READ_INPUT:
        run(tmp_path, *words, stdin=HI)
    else:
        done = CliRunner().invoke(commands, ["--home", str(tmp_path / ".config" / "clew"), *words])
        assert done.exception is None or isinstance(done.exception, ClewError | SystemExit), done.exception
    assert public(tmp_path / ".config") == {}


def test_everything_that_clew_writes_is_private(tmp_path: Path) -> None:
    transcripts = tmp_path / ".claude" / "projects" / "w"
    transcripts.mkdir(parents=True)
    (transcripts / "11111111-1111-4111-8111-111111111111.jsonl").write_text(CLAUDE)
    id = run(tmp_path, "open", "--title", "t").stdout.strip()
    assert id
    big = HI.replace("hi", "x" * 100_000)
    out = tmp_path / "out"
    out.mkdir(mode=0o700)
    for words, stdin in (
        (["append", id], big), (["capture"], ""),
        (["connect", "gemini-cli", "--yes"], ""), (["connect", "pi", "--yes"], ""),
        (["audit", "checkpoint"], ""), (["audit", "export", "--out", str(out / "bundle")], ""), (["scan"], ""),
        (["export", id, "--out", str(out / "masked.md")], ""), (["brief", id], ""),
        (["export", id, "--with-secrets", "--out", str(out / "secret.md")], ""),
        (["export", id, "--with-secrets", "--out", str(out / "folder") + "/"], ""),
        (["remote", "add", "http://127.0.0.1:1"], "x"), (["search", "hi"], ""), (["doctor"], ""),
    ):  # fmt: skip
        done = run(tmp_path, *words, stdin=stdin)
        assert "Traceback" not in done.stderr, done.stderr
    assert len(list(out.rglob("*.md"))) >= 3
    assert public(tmp_path / ".config") == {}
    assert public(out) == {}
    for folder in (".gemini", ".pi"):
        assert public(tmp_path / folder) == {}


# On a store elsewhere, these are the first to write into the home.
FIRST: dict[str, Callable[[Path], object]] = {
    "the secret of one's own server": own_secret,
    "the key that marks are made with": lambda home: mask_key._make(home / "mask.key"),
    "a remote": lambda home: list(_changed(home)),
    "failures in the background": lambda home: save_failures(
        home, "", [Failure(runtime="", at=0, path="", error="", files=0)]
    ),
}


def _changed(home: Path) -> Iterator[object]:
    with pytest.raises(NotFound), remotes.changing(home, "team"):
        yield


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("write", FIRST.values(), ids=FIRST)
def test_a_home_is_private_whoever_makes_it(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path / ".config" / "clew")
    assert public(tmp_path / ".config") == {}
