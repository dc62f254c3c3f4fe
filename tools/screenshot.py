"""Draws docs/images/terminal.svg: real commands, run in a terminal of their own on a home made for the picture.

Ids and times are those of the run, so the file changes each time it is drawn; draw it when the output has changed.
"""

import fcntl
import json
import os
import pty
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "docs"))

from pages import agents

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images" / "terminal.svg"
COLUMNS = 116
DARK, LIGHT = (24, 26, 31), (222, 226, 232)
RED, GREEN, YELLOW = (240, 120, 120), (140, 210, 130), (230, 200, 110)
BLUE, MAGENTA, CYAN = (120, 170, 250), (215, 150, 240), (110, 210, 220)
THEME = TerminalTheme(DARK, LIGHT, [DARK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, LIGHT])
# rich's own frame, without the font it would fetch from another host: a picture shows the same everywhere.
FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="clew in a terminal">
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

SESSIONS = [
    (
        "codex",
        "Move the invoices to one table",
        "billing",
        "pytest tests/invoices",
        "12 passed",
        "The invoices are moved.",
    ),
    (
        "gemini-cli",
        "Why is checkout slow on Mondays?",
        "shop",
        "grep -rn sleep src",
        "src/queue.py:31",
        "A retry sleeps.",
    ),
    ("copilot-cli", "Review the rate limits per key", "gateway", "git diff main", "+LIMIT = 20", "The limit holds."),
    (
        "qwen-code",
        "Continue the migration to WAL",
        "shop",
        "pytest -x",
        "1 failed: database is locked",
        "One writer is left.",
    ),
]


class Terminal:
    """Runs `clew` on one home."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "NO_COLOR"))}
        path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
        self._environment = {
            "CLEW_PAGER": "",
            **kept, "HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "CLEW_MACHINE": "ada-laptop",
            "TERM": "xterm-256color", "TZ": "UTC", "PATH": path, "COLUMNS": str(COLUMNS),
        }  # fmt: skip
        self.home = home

    def quietly(self, command: str, stdin: str = "") -> str:
        """Run a command out of the picture; returns what it printed."""
        done = subprocess.run(
            shlex.split(command), input=stdin, env=self._environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def shown(self, command: str) -> str:
        """Run a command in a terminal; returns what it printed, colours included."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        with subprocess.Popen(
            shlex.split(command), stdin=theirs, stdout=theirs, stderr=theirs, env=self._environment
        ) as process:
            os.close(theirs)
            output = _read(ours)
        if process.returncode:
            sys.exit(f"{command} ended with {process.returncode}:\n{output}")
        return output.replace("\r\n", "\n").replace(str(self.home), "/home/ada")


def _read(descriptor: int) -> str:
    found = b""
    try:
        while data := os.read(descriptor, 4096):
            found += data
    except OSError:
        pass  # Linux reports the end of a terminal whose other side is closed as an error.
    os.close(descriptor)
    return found.decode()


def others(terminal: Terminal) -> None:
    """Sessions of other programs in the home, written for the picture as those programs write them."""
    for program, title, folder, command, printed, answer in SESSIONS:
        (terminal.home / folder).mkdir(exist_ok=True)
        drafts = [
            {"kind": "message_added", "role": "user", "text": title},
            {"kind": "call_made", "call": "c1", "tool": "shell", "input": {"command": command}},
            {"kind": "call_returned", "call": "c1", "output": printed},
            {"kind": "message_added", "role": "assistant", "text": answer},
        ]
        opened = json.loads(terminal.quietly(f"clew --home {terminal.home}/made open --title {title!r} --json"))["id"]
        lines = "".join(json.dumps(draft) + "\n" for draft in drafts)
        terminal.quietly(f"clew --home {terminal.home}/made append {opened}", lines)
        written = f"--in {program} --cwd {terminal.home}/{folder} --no-run"
        terminal.quietly(f"clew --home {terminal.home}/made resume {opened} {written}")


def main() -> None:
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), color_system="truecolor")  # noqa: SIM115
    with tempfile.TemporaryDirectory() as folder:
        # Short, so that no path is broken in two before it is shown as what it stands for.
        home = Path(folder) / "a"
        home.mkdir()
        agents(home)
        terminal = Terminal(home)
        others(terminal)
        terminal.quietly("clew capture --json")
        captured = json.loads(terminal.quietly("clew sessions --runtime claude-code --json"))["id"][:8]
        for command in (
            "clew sessions",
            "clew search locked",
            f"clew resume {captured} --in codex --no-run",
            "clew verify",
        ):
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            lines = [line.rstrip() for line in terminal.shown(command).rstrip().splitlines()]
            console.print(Text.from_ansi("\n".join(line for line in lines if line)), soft_wrap=True)
    svg = console.export_svg(title="clew", theme=THEME, code_format=FRAME, unique_id="clew")
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(svg, "utf-8")
    print(f"{TARGET.relative_to(Path.cwd()) if TARGET.is_relative_to(Path.cwd()) else TARGET}: {len(svg):,} bytes")


if __name__ == "__main__":
    main()
