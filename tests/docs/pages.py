"""The examples of a page, run again. `python tests/docs/pages.py PAGE...` writes their real output into the pages.

Two kinds of example are run, in the order of the page, in one home of their own:

* a ```console block: a line after `$ ` is a command of `clew`, lines after `> ` its here-document, the rest its output;
* a ```python block; a ```text block right after it is what it prints. Blocks of one page share their names.

A command may read a file (`< FILE`, `"$(cat FILE)"`), write one (`> FILE`) or both print and write (`| tee FILE`).

What the examples of a page need, and no reader, is Python in a comment of the page, `<!-- run ... -->`. It has `home`
and three functions: `clew(arguments, stdin)` returns what a command prints, `is_shown_as(actual, shown)` says as what
the page shows an id or an address, and `at_the_end(function)` has it called after the page.

Ids and times differ from run to run, so two pages are compared by their `shape`.
"""

import io
import json
import os
import re
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

from clew.cli.run import run
from clew.model.ids import ALPHABET, LENGTH

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

# What a page shows in place of the temporary home of the person whose examples these are.
SHOWN_HOME = "/home/ada"
SHORTEST = 6

EXAMPLE = re.compile(
    r"^```console\n(?P<console>.*?)^```$"
    r"|^```python\n(?P<python>.*?)^```$(?P<gap>\n\n```text\n)?(?(gap)(?P<printed>.*?)^```$)"
    r"|^<!-- run\n(?P<run>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)
# A whole id, or the beginning of one in the first column of a table.
ID = re.compile(rf"\b[{ALPHABET}]{{{LENGTH}}}\b|(?<=^ )[{ALPHABET}]{{10}}(?=   )", re.MULTILINE)
CAT = re.compile(r"\$\(cat ([\w./-]+)\)")
WORD = re.compile(rf"\b[{ALPHABET}]{{{SHORTEST},{LENGTH}}}\b")
VARYING = [
    (re.compile(r"── \d{4}-\d\d-\d\d ─"), "── <day> ─"),
    (re.compile(r"^( *\d+) \d\d:\d\d (?=[ ▶])", re.MULTILINE), r"\1 <clock> "),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b(?!:)"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}([-/])\d\d\1\d\d(/|T)rollout-[-\dT]+"), "<day>rollout-<time>-"),
    (re.compile(r"\b\d{4}/\d\d/\d\d\b"), "<day>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\b"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"^ \d{4}-\d\d-\d\d (?= )", re.MULTILINE), " <day> "),
    (re.compile(r"\b\d+ (s|min|h|d) ago\b"), "<ago>"),
    (re.compile(r"\b\d{16}\b"), "<at>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}"), "<key>"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=(?!\S)"), "<hash>"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{80,}={0,2}(?!\S)"), "<signature>"),
    (re.compile(r"\[REDACTED:([a-z-]+):[0-9a-f]{8}\]"), r"[REDACTED:\1:<mark>]"),
    (re.compile(r"\bkey [A-Za-z0-9]{12} "), "key <key> "),
    (re.compile(r"\bhttp://127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\b\d+(\.\d+)+\b"), "<number>"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"[ ]+"), " "),
]


class Step(NamedTuple):
    """One command of a console block and what the page says it prints."""

    command: str
    stdin: list[str]
    shown: list[str]


def steps(block: str) -> Iterator[Step]:
    step: Step | None = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(line[2:], [], [])
        elif step is None:
            raise ValueError(f"a console block begins with output: {line!r}")
        elif line.startswith("> ") and not step.shown:
            step.stdin.append(line[2:])
        else:
            step.shown.append(line)
    if step is not None:
        yield step


class Replay:
    """Runs a page's examples; `ids` leads from the ids on the page to those of this run."""

    def __init__(self, home: Path) -> None:
        self._ids: dict[str, str] = {}
        self._code = 0
        self._names: dict[str, Any] = {"__name__": "__main__", "home": home}
        self._shown = {str(home): SHOWN_HOME}
        self._end = ExitStack()
        self._unseen: dict[str, Any] = {
            "home": home, "clew": self._unseen_clew, "is_shown_as": self._is_shown_as, "at_the_end": self._end.callback,
        }  # fmt: skip

    def page(self, text: str) -> str:
        """The page with the output of this run."""
        with self._end:
            return EXAMPLE.sub(self._example, text)

    def _unseen_clew(self, arguments: str, stdin: str = "") -> str:
        output = self._clew(shlex.split(arguments), stdin)
        if self._code:
            raise ValueError(f"clew {arguments} ended with {self._code}: {output}")
        return output

    def _is_shown_as(self, actual: str, shown: str) -> None:
        if ID.fullmatch(shown):
            self._ids[shown] = actual
        else:
            self._shown[actual] = shown

    def _example(self, example: re.Match[str]) -> str:
        if example["run"] is not None:
            exec(compile(example["run"], "<unseen>", "exec"), self._unseen)  # noqa: S102  # a page of ours
            return f"<!-- run\n{WORD.sub(self._renamed, example['run'])}-->"
        if example["console"] is not None:
            return "```console\n" + "".join(map(self._step, steps(example["console"]))) + "```"
        printed = self._python(example["python"])
        shown = f"\n\n```text\n{printed}```" if example["gap"] else ""
        return f"```python\n{example['python']}```{shown}"

    def _step(self, step: Step) -> str:
        command = WORD.sub(self._renamed, step.command)
        output = f"{self._code}\n" if command == "echo $?" else self._shell(command, step.stdin[:-1])
        self._ids.update(zip(ID.findall("\n".join(step.shown)), ID.findall(output), strict=False))
        return f"$ {command}\n" + "".join(f"> {line}\n" for line in step.stdin) + output

    def _shell(self, command: str, lines: list[str]) -> str:
        """What a command prints, whichever of its files a shell would have opened."""
        # What another command has written is what stands for it.
        command = CAT.sub(lambda file: Path(file[1]).read_text("utf-8").strip(), command)
        for actual, shown in self._shown.items():
            command = command.replace(shown, actual)
        program, *words = shlex.split(command.removesuffix("<<'END'"))
        if program != "clew":
            raise ValueError(f"only `clew` and `echo $?` are run, not {command!r}")
        words = [os.path.expanduser(word) for word in words]
        arguments, files = _redirected(words)
        stdin = Path(files["<"]).read_text("utf-8") if "<" in files else "".join(f"{line}\n" for line in lines)
        written = files.get(">") or files.get("tee")
        output = self._clew(arguments, stdin, Path(written) if written else None, printed=">" not in files)
        return self._tidy(output)

    def _renamed(self, word: re.Match[str]) -> str:
        found = [actual for shown, actual in self._ids.items() if shown.startswith(word[0])]
        return found[0][: len(word[0])] if found else word[0]

    def _clew(self, arguments: list[str], stdin: str, written: Path | None = None, *, printed: bool = True) -> str:
        with tempfile.TemporaryFile("w+") as given, _place(sys, "stdin", given), _place(sys, "argv", ["", *arguments]):
            given.write(stdin)
            given.seek(0)
            if written is None:
                with _printed() as output:
                    self._code = run()
                return output.getvalue()
            # The two streams apart, because only one of them goes into the file.
            with _printed() as output, redirect_stderr(Printed(io.BytesIO(), "utf-8", write_through=True)) as said:
                self._code = run()
            written.write_text(output.getvalue(), "utf-8")
            return (output.getvalue() if printed else "") + said.getvalue()

    def _python(self, code: str) -> str:
        with _printed() as output:
            exec(compile(code, "<example>", "exec"), self._names)  # noqa: S102  # the point of the test
        return self._tidy(output.getvalue())

    def _tidy(self, output: str) -> str:
        """Without the blank lines around a table and the spaces behind it, which nobody sees."""
        for actual, shown in self._shown.items():
            output = output.replace(actual, shown)
        text = "\n".join(line.rstrip() for line in output.splitlines()).strip("\n")
        return f"{text}\n" if text else ""


def _redirected(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments, and the files by what leads to them: `<`, `>` or `tee`."""
    files: dict[str, str] = {}
    if words[-3:-1] == ["|", "tee"]:
        files["tee"] = words[-1]
        words = words[:-3]
    while len(words) > 2 and words[-2] in ("<", ">"):
        files[words[-2]] = words[-1]
        words = words[:-2]
    return words, files


def shape(text: str) -> str:
    """The text with ids numbered in the order they appear, and without what differs from run to run."""
    ids: list[str] = []
    for id in ID.findall(text):
        if not any(known.startswith(id) for known in ids):
            # The whole of an id that was first seen shortened takes its place.
            shortened = next((place for place, known in enumerate(ids) if id.startswith(known)), None)
            if shortened is None:
                ids.append(id)
            else:
                ids[shortened] = id

    def number(word: re.Match[str]) -> str:
        found = [place for place, id in enumerate(ids) if id.startswith(word[0])]
        return f"<id {found[0]}>" if found else word[0]

    text = WORD.sub(number, text)
    for pattern, stands_for in VARYING:
        text = pattern.sub(stands_for, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def _short_folder() -> Path:
    """A new folder whose path is as long as what stands for it, so that tables are as wide as they are shown."""
    while True:
        folder = Path("/tmp") / secrets.token_hex(2)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder


@contextmanager
def new_home() -> Iterator[Path]:
    """The home of somebody called Ada, who has used Claude Code and not yet clew, and lives in UTC."""
    before = dict(os.environ)
    home = _short_folder()
    try:
        agents(home)
        os.environ |= {"HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "TZ": "UTC", "NO_COLOR": "1"}
        os.environ["CLEW_MACHINE"] = "ada-laptop"
        for name in [name for name in os.environ if name.startswith(("CLEW_", "CODEX_", "CLAUDE_", "XDG_"))]:
            if name not in ("CLEW_PRINCIPAL", "CLEW_MACHINE"):
                del os.environ[name]
        # No program of this machine, so that the pages are the same on every one.
        os.environ["PATH"] = str(home / "bin")
        time.tzset()
        folder_before = os.getcwd()
        os.chdir(home)
        try:
            yield home
        finally:
            os.chdir(folder_before)
            os.environ.clear()
            os.environ.update(before)
            time.tzset()
    finally:
        shutil.rmtree(home)


def agents(home: Path) -> None:
    """A Claude Code session in somebody's home, and the folder that it worked in."""
    (home / "shop").mkdir()
    id = "7d0c5a54-3c0e-4b1e-9a53-0d6f6f1f2a10"
    common = {"cwd": f"{home}/shop", "sessionId": id, "version": "2.1.325", "gitBranch": "main", "isSidechain": False}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "pytest -x"}}
    back = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1 failed: database is locked"}
    said = [
        ("user", "why does the test lock?"),
        ("assistant", [call]),
        ("user", [back]),
        ("assistant", [{"type": "text", "text": "Two writers share one connection; use WAL."}]),
    ]
    lines, parent = [{"type": "mode", "mode": "normal", "sessionId": id}], None
    for number, (role, content) in enumerate(said):
        own = f"00000000-0000-4000-8000-00000000000{number}"
        message = {"role": role, "content": content}
        if role == "assistant":
            usage = {"input_tokens": 1200 * number, "output_tokens": 90, "cache_read_input_tokens": 14000}
            message |= {"id": f"msg_01Shop{number:08d}", "model": "claude-sonnet-4-5", "usage": usage}
        about = {"type": role, "uuid": own, "parentUuid": parent, "timestamp": f"2026-11-15T10:00:0{number}.000Z"}
        lines.append({**about, **common, "message": message})
        parent = own
    file = home / ".claude" / "projects" / "-home-ada-shop" / f"{id}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


class Printed(io.TextIOWrapper):
    """What was printed, as text or as bytes."""

    def getvalue(self) -> str:
        self.seek(0)
        return self.read()


@contextmanager
def _printed() -> Iterator["Printed"]:
    """What is printed in the block, both streams as a terminal shows them."""
    output = Printed(io.BytesIO(), "utf-8", write_through=True)
    with redirect_stdout(output), redirect_stderr(output):
        yield output


@contextmanager
def _place(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    for name in sys.argv[1:]:
        page = Path(name).absolute()
        with new_home() as home:
            page.write_text(Replay(home).page(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
