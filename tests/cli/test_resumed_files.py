"""`clew resume` brings the files back first, where they are not as they were."""

import io
import json
import sys
from pathlib import Path

import pytest

from clew.cli.resumed_files import is_wanted
from clew.service.handover.files_here import DIFFERS, MISSING, NONE, SAME, WorkspaceHere
from cli.conftest import Clew


def test_files_come_back_before_a_session_goes_on(clew: Clew, tmp_path: Path) -> None:
    """Two machines with one store: on the other one the files are not there."""
    shop, home = tmp_path / "shop", tmp_path / "codex"
    (shop / "src").mkdir(parents=True)
    (shop / "a").write_text("1")
    (shop / "src" / "b").write_text("2")
    there = {"HOME": str(home), "CODEX_HOME": "", "CLEW_MACHINE": "one"}
    events = [
        {"kind": "runtime_attached", "runtime": "claude-code", "cwd": f"{shop}/src", "machine": "one"},
        {"kind": "message_added", "role": "user", "text": f"look at {shop}/a and {tmp_path}/shopping"},
        {"kind": "message_added", "role": "assistant", "text": "done"},
    ]
    id = clew("open", **there).out.strip()
    clew("append", id, stdin="\n".join(map(json.dumps, events)), **there)
    refused = clew("resume", id, "--in", "codex", "--print", "--workspace", **there)
    assert (refused.code, "has no snapshot of its files" in refused.err) == (2, True)
    clew("workspace", "snapshot", str(shop), "--session", id, **there)
    [made] = clew("resume", id, "--in", "codex", "--dry-run", "--json", **there).objects
    assert (made["cwd"], made["workspace"]["state"], made["workspace"]["restored"]) == (f"{shop}/src", "same", False)

    new, elsewhere = tmp_path / "new", {**there, "CLEW_MACHINE": "two"}
    [made] = clew(
        "resume", id, "--in", "codex", "--print", "--json", "--workspace", "--cwd", str(new), **elsewhere
    ).objects
    assert (made["cwd"], made["workspace"]["state"], made["workspace"]["restored"]) == (f"{new}/src", "missing", True)
    assert ((new / "a").read_text(), (new / "src" / "b").read_text()) == ("1", "2")
    native = Path(made["files"][0]).read_text()
    assert (f"look at {new}/a and {tmp_path}/shopping" in native, f"{shop}/" in native) == (True, False)

    # Here again: what differs is only told, unless it is asked for; and then it can be undone.
    (shop / "a").write_text("other")
    told = clew("resume", id, "--in", "codex", "--print", **there)
    assert f"files: in {shop} 1 are others; --workspace restores them" in told.err
    assert (shop / "a").read_text() == "other"
    back = clew("resume", id, "--in", "codex", "--print", "--workspace", **there)
    assert (shop / "a").read_text() == "1"
    assert f"1 written and 0 removed in {shop}; clew workspace restore" in back.err
    assert back.out.startswith(f"cd {shop}/src && codex resume ")
    [made] = clew("resume", id, "--in", "codex", "--dry-run", "--json", "--no-workspace", **there).objects
    assert "workspace" not in made


@pytest.mark.parametrize(
    ("state", "answer", "wanted", "restores"),
    [
        (MISSING, "\n", None, True), (MISSING, "n\n", None, False), (DIFFERS, "\n", None, False),
        (DIFFERS, "y\n", None, True), (DIFFERS, "", True, True), (MISSING, "", False, False), (SAME, "", True, False),
        (NONE, "", None, False),
    ],
)  # fmt: skip
def test_a_person_is_asked_where_nobody_said(
    state: str, answer: str, wanted: bool | None, restores: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    here = WorkspaceHere(session="s", state=state, folder="/a\x1b[31m", changes=2, seq=3)
    assert is_wanted(here, wanted=wanted, asks=True) is restores
    terminal.seek(0)
    assert is_wanted(here, wanted=wanted, asks=False) is (bool(wanted) and restores)
