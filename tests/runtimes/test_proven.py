"""The versions that clew claims to be proven with are those that the real clients are installed in."""

import re
from pathlib import Path

from clew.runtimes import runtimes

ROOT = Path(__file__).parents[2]
PROVEN = {program.binary: program for program in runtimes() if program.proven}
# The names of the installer, by the programs that they install.
BINARIES = {
    "claude-code": "claude", "codex": "codex", "opencode": "opencode", "gemini-cli": "gemini", "copilot": "copilot",
    "pi": "pi", "qwen-code": "qwen",
}  # fmt: skip


def test_the_proven_versions_are_the_pinned_ones() -> None:
    text = (ROOT / "tools/install_clients.sh").read_text("utf-8")
    pins = dict(re.findall(r"^([\w-]+) +@?[\w/-]+ +(\S+) +sha512-", text, re.MULTILINE))
    proven = {name: PROVEN[binary].proven for name, binary in BINARIES.items()}
    assert {name: pins[name] for name in BINARIES} == {name: one.version for name, one in proven.items() if one}
    assert len(PROVEN) == len(BINARIES)


def test_the_table_of_programs_says_which_version_was_proven_when() -> None:
    table = (ROOT / "docs/runtimes/README.md").read_text("utf-8")
    for program in PROVEN.values():
        assert program.proven is not None
        [row] = [line for line in table.splitlines() if line.startswith("|") and f"]({program.name}.md)" in line]
        assert row.endswith(f"| run, {program.proven.version} | {program.proven.on} |")
