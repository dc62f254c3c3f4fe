"""The examples of a page, run again. `python tests/docs/pages.py PAGE...` writes their real output into the pages.

Two kinds of example are run, in the order of the page, in one home of their own:

* a ```console block: a line after `$ ` is a command of `clew`, lines after `> ` its here-document, the rest its output;
* a ```python block; a ```text block right after it is what it prints. Blocks of one page share their names.

Ids and times differ from run to run, so two pages are compared by their `shape`.
"""

import io
import json
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
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
    r"|^```python\n(?P<python>.*?)^```$(?P<gap>\n\n```text\n)?(?(gap)(?P<printed>.*?)^```$)",
    re.MULTILINE | re.DOTALL,
)
# A whole id, or the beginning of one in the first column of a table.
ID = re.compile(rf"\b[{ALPHABET}]{{{LENGTH}}}\b|(?<=^ )[{ALPHABET}]{{10}}(?=   )", re.MULTILINE)
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
        self._home = home
        self._ids: dict[str, str] = {}
        self._code = 0
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def page(self, text: str) -> str:
        """The page with the output of this run."""
        return EXAMPLE.sub(self._example, text)

    def _example(self, example: re.Match[str]) -> str:
        if example["console"] is not None:
            return "```console\n" + "".join(map(self._step, steps(example["console"]))) + "```"
        printed = self._python(example["python"])
        shown = f"\n\n```text\n{printed}```" if example["gap"] else ""
        return f"```python\n{example['python']}```{shown}"

    def _step(self, step: Step) -> str:
        command = WORD.sub(self._renamed, step.command)
        output = f"{self._code}\n" if command == "echo $?" else self._clew(command, step.stdin)
        self._ids.update(zip(ID.findall("\n".join(step.shown)), ID.findall(output), strict=False))
        return f"$ {command}\n" + "".join(f"> {line}\n" for line in step.stdin) + output

    def _renamed(self, word: re.Match[str]) -> str:
        found = [actual for shown, actual in self._ids.items() if shown.startswith(word[0])]
        return found[0][: len(word[0])] if found else word[0]

    def _clew(self, command: str, lines: list[str]) -> str:
        program, *arguments = shlex.split(command.removesuffix("<<'END'"))
        if program != "clew":
            raise ValueError(f"only `clew` and `echo $?` are run, not {command!r}")
        with tempfile.TemporaryFile("w+") as stdin, _place(sys, "stdin", stdin), _place(sys, "argv", ["", *arguments]):
            stdin.writelines(f"{line}\n" for line in lines[:-1])
            stdin.seek(0)
            with _printed() as output:
                self._code = run()
        return self._tidy(output.getvalue())

    def _python(self, code: str) -> str:
        with _printed() as output:
            exec(compile(code, "<example>", "exec"), self._names)  # noqa: S102  # the point of the test
        return self._tidy(output.getvalue())

    def _tidy(self, output: str) -> str:
        """Without the blank lines around a table and the spaces behind it, which nobody sees."""
        lines = [line.rstrip() for line in output.replace(str(self._home), SHOWN_HOME).splitlines()]
        text = "\n".join(lines).strip("\n")
        return f"{text}\n" if text else ""


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


@contextmanager
def new_home() -> Iterator[Path]:
    """The home of somebody called Ada, who has used Claude Code and not yet clew, and lives in UTC."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "ada"
        agents(home)
        os.environ |= {"HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "TZ": "UTC", "NO_COLOR": "1"}
        os.environ["CLEW_MACHINE"] = "ada-laptop"
        for name in [name for name in os.environ if name.startswith(("CLEW_", "CODEX_", "CLAUDE_", "XDG_"))]:
            if name not in ("CLEW_PRINCIPAL", "CLEW_MACHINE"):
                del os.environ[name]
        # No program of this machine, so that the pages are the same on every one.
        os.environ["PATH"] = str(home / "bin")
        time.tzset()
        try:
            yield home
        finally:
            os.environ.clear()
            os.environ.update(before)
            time.tzset()


def agents(home: Path) -> None:
    """A Claude Code session in somebody's home."""
    id = "7d0c5a54-3c0e-4b1e-9a53-0d6f6f1f2a10"
    common = {"cwd": "/home/ada/shop", "sessionId": id, "version": "2.1.325", "gitBranch": "main", "isSidechain": False}
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
    for name in sys.argv[1:]:
        page = Path(name)
        with new_home() as home:
            page.write_text(Replay(home).page(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
