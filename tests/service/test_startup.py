"""What a caller pays before anything happens: imports."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support import claude

HEAVY = ["apsw", "psycopg", "rich", "click", "starlette", "uvicorn", "mcp", "blake3", "zstandard", "asyncio", "httpx"]


def loaded(code: str, **environment: str) -> set[str]:
    """The top-level modules, and those of clew, that a fresh interpreter has after running the code."""
    names = "{m if m.startswith('clew') else m.split('.')[0] for m in sys.modules}"
    script = f"{code}\nimport sys, json; print('MODULES', json.dumps(sorted({names})))"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return set(json.loads(run.stdout.rpartition("MODULES ")[2]))


def test_importing_clew_imports_nothing_heavy() -> None:
    assert not loaded("import clew").intersection([*HEAVY, "msgspec"])


def test_asking_for_the_version_imports_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['clew', '--version']\nimport clew.cli; clew.cli.main()"
    assert not loaded(code).intersection([*HEAVY, "msgspec"])


def test_an_embedded_store_does_not_import_the_other_driver(tmp_path: object) -> None:
    modules = loaded(f"import clew; clew.connect('sqlite:///{tmp_path}/clew.db').session('x')")
    assert "apsw" in modules
    assert not modules.intersection(["psycopg", "rich", "click", "starlette", "mcp", "asyncio"])


def test_a_capture_with_nothing_new_loads_no_library_that_it_has_no_use_for(tmp_path: Path) -> None:
    """Each of them takes longer to load than a thousand files to look at; `email` stands for importlib.metadata."""
    transcript = tmp_path / ".claude" / "projects" / "-home-me-app" / f"{claude.SESSION}.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(claude.lines(claude.story()))
    for _ in range(2):
        modules = loaded(run_of("capture", "--json"), HOME=str(tmp_path), CLEW_HOME=str(tmp_path / "clew"))
    assert "apsw" in modules
    assert not modules.intersection(["email", "sqlite3", "socket", "shutil", "tempfile", "difflib", "zipfile", "rich"])
    # What captures a file is not loaded either, nor what only errors and other commands need.
    steps = {name for name in modules if name.startswith("clew.service.capture.")}
    assert {name.rpartition(".")[2] for name in steps} == {"changed_files", "discovery", "in_background", "report"}
    assert not modules.intersection(["clew.doctor", "clew.cli.hints", "clew.service.access.agents"])


# What a command imports costs its user a fraction of a millisecond per module, each time. `sessions` needs neither what
# folds the views, when they are up to date, nor what writes objects or the audit log.
UNUSED_BY_A_LIST = {
    "zstandard", "blake3", "zipfile", "tempfile", "importlib.resources", "clew.store.objects.objects",
    "clew.store.objects.pack", "clew.store.log.retention", "clew.store.log.verify", "clew.views.folding",
    "clew.views.text", "clew.views.course", "clew.views.knowledge", "clew.model.query", "clew.model.words",
    "clew.service.kernel.audit_record", "clew.service.kernel.argument_error", "clew.doctor",
}  # fmt: skip
UNUSED_BY_A_RESUME = {
    "clew.service.privacy.retention", "clew.service.handover.brief", "clew.service.handover.take_back",
    "clew.service.handover.resume_in_place", "clew.secrets.masking", "clew.secrets.stream", "clew.store.log.erase",
    "clew.store.log.retention", "clew.store.objects.collection",
}  # fmt: skip


def test_the_frequent_commands_import_only_what_they_use(tmp_path: Path) -> None:
    transcript = tmp_path / ".claude" / "projects" / "-home-me-app" / f"{claude.SESSION}.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(claude.lines(claude.story()))
    home = {"HOME": str(tmp_path), "CLEW_HOME": str(tmp_path / "clew")}
    loaded(run_of("capture"), **home)
    loaded(run_of("sessions"), **home)
    for arguments, unused, most in (
        (["sessions"], UNUSED_BY_A_LIST, 100),
        (["capture", "--json"], UNUSED_BY_A_LIST - {"zstandard", "blake3"}, 100),
        (["resume", "latest", "--in", "codex", "--print"], UNUSED_BY_A_RESUME, 130),
    ):
        modules = loaded(run_of(*arguments), **home)
        assert not modules & unused, arguments
        own = [name for name in modules if name.startswith("clew")]
        assert len(own) <= most, (arguments, len(own))


def run_of(*arguments: str) -> str:
    return f"""
import sys
import clew.cli
sys.argv = ["clew", *{list(arguments)!r}]
try:
    clew.cli.main()
except SystemExit as ended:
    assert not ended.code
"""
