"""Adapters of other packages: found by their entry point, captured by the real command, and no danger to the others."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.runtimes import MODULES
from support import claude

PAGE = Path(__file__).parent.parent.parent / "docs" / "adapters.md"
ADAPTER = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
CHAT = (
    b'{"type":"chat","id":"0","text":"/home/me/app"}\n'
    b'{"type":"user","id":"1","text":"hello parrot"}\n'
    b'{"type":"assistant","id":"2","text":"hello hello"}\n'
    b'{"type":"molt","feathers":3}\n'
)


class Machine:
    """A site directory with packages in it, and a person's home."""

    def __init__(self, root: Path) -> None:
        self.site, self.person, self._root = root / "site", root / "person", root
        self.site.mkdir()
        self.person.mkdir()

    def install(self, package: str, module: str, **points: str) -> None:
        """Put a package there as an installer would: its module, and what its metadata offers."""
        (self.site / f"{package}.py").write_text(module)
        about = self.site / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        offered = "".join(f"{name} = {place}\n" for name, place in points.items())
        (about / "entry_points.txt").write_text(f"[clew.runtimes]\n{offered}")

    def chat(self, name: str = "one") -> Path:
        path = self.person / ".parrot" / "chats" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CHAT)
        return path

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "PYTHON"))}
        more = {"PYTHONPATH": str(self.site), "CLEW_HOME": str(self._root / "clew"), "HOME": str(self.person)}
        return subprocess.run(
            [sys.executable, *words],
            env={**kept, **more, "CLEW_PRINCIPAL": "person:ada", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def clew(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.run("-m", "clew", *words)

    def captured(self, *words: str) -> list[dict[str, Any]]:
        """What a capture of the person's home reports, file by file."""
        done = self.clew("capture", "--home", str(self.person), "--json", *words)
        assert done.returncode == 0, done.stderr
        return [one for line in done.stdout.splitlines() if "path" in (one := json.loads(line))]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def with_parrot(machine: Machine) -> Machine:
    machine.install("parrot_for_clew", ADAPTER, parrot="parrot_for_clew:RUNTIME")
    machine.chat()
    return machine


def test_an_adapter_is_found_by_its_entry_point(with_parrot: Machine) -> None:
    code = "from clew.runtimes import runtime, names; print(runtime('parrot').title, names()[-1], len(names()))"
    done = with_parrot.run("-c", code)
    assert done.stdout.split() == ["Parrot", "parrot", str(len(MODULES) + 1)], done.stderr


def test_the_variable_that_names_its_home_is_known(machine: Machine) -> None:
    named = ADAPTER.replace('home=".parrot"', 'home=".parrot", home_variable="PARROT_HOME"')
    machine.install("parrot_for_clew", named, parrot="parrot_for_clew:RUNTIME")
    done = machine.run("-c", "from clew.runtimes import variables; print(*variables())")
    assert {"PARROT_HOME", "CODEX_HOME"} <= {*done.stdout.split()}, done.stderr


def test_its_sessions_are_captured_with_all_others(with_parrot: Machine) -> None:
    claude.transcript(with_parrot.person).write_bytes(claude.lines(claude.story()))
    found = {report["runtime"]: report for report in with_parrot.captured()}
    assert {*found} == {"parrot", "claude-code"}
    assert (found["parrot"]["records"], found["parrot"]["events"], found["parrot"]["opaque"]) == (4, 3, 1)
    shown = with_parrot.clew("show", found["parrot"]["session"], "--events", "--json")
    assert "hello hello" in shown.stdout
    assert '"parrot.molt"' in shown.stdout


def test_it_is_captured_alone_and_listed(with_parrot: Machine) -> None:
    assert [report["runtime"] for report in with_parrot.captured("--runtime", "parrot")] == ["parrot"]
    listed = with_parrot.clew("runtimes", "--json")
    assert "Parrot" in listed.stdout, listed.stderr


def test_a_session_goes_on_in_it(with_parrot: Machine) -> None:
    claude.transcript(with_parrot.person).write_bytes(claude.lines(claude.story()))
    session = next(report["session"] for report in with_parrot.captured() if report["runtime"] == "claude-code")
    done = with_parrot.clew("resume", session, "--in", "parrot", "--print", "--json", "--cwd", str(with_parrot.person))
    made = json.loads(done.stdout)
    assert made["command"] == ["parrot", "--chat", made["native_id"]]
    file = Path(made["files"][0])
    assert file == with_parrot.person / ".parrot" / "chats" / f"{made['native_id']}.jsonl"
    said = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["tool"] for one in said if one["type"] == "call"] == ["squawk", "squawk"]
    assert said[-1]["text"] == "Done."


# Broken ones ----------------------------------------------------------------------------------------------------------

BROKEN = {
    "it is no runtime": ("RUNTIME = {'name': 'owl'}", "is not a Runtime of that name"),
    "it has another name": (ADAPTER, "is not a Runtime of that name"),
    "it cannot be imported": ("import a_module_that_is_not_there", "a_module_that_is_not_there"),
    "it raises": ("raise OSError('no feathers')", "no feathers"),
    "it has no such object": ("", "RUNTIME"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_adapter_is_named_and_the_others_work(with_parrot: Machine, how: str) -> None:
    module, says = BROKEN[how]
    with_parrot.install("owl_for_clew", module, owl="owl_for_clew:RUNTIME")
    assert [report["runtime"] for report in with_parrot.captured()] == ["parrot"]
    done = with_parrot.clew("capture", "--home", str(with_parrot.person), "--runtime", "owl")
    assert done.returncode not in (0, 1)
    assert "owl" in done.stderr
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_name_of_our_own_stays_ours(machine: Machine) -> None:
    machine.install("thief_for_clew", "raise OSError('loaded')", **{"claude-code": "thief_for_clew:RUNTIME"})
    claude.transcript(machine.person).write_bytes(claude.lines(claude.story()))
    assert [report["records"] for report in machine.captured()] == [len(claude.story())]


def test_two_packages_with_one_name_are_one_runtime(with_parrot: Machine) -> None:
    with_parrot.install("parrot_again", ADAPTER, parrot="parrot_again:RUNTIME")
    assert len(with_parrot.captured()) == 1
    done = with_parrot.run("-c", "from clew.runtimes import names; print(names().count('parrot'))")
    assert done.stdout.strip() == "1"
