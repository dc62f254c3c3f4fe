"""What a caller pays before anything happens: imports."""

import json
import subprocess
import sys

HEAVY = ["apsw", "psycopg", "rich", "click", "starlette", "uvicorn", "mcp", "blake3", "zstandard", "asyncio", "httpx"]


def loaded(code: str) -> set[str]:
    """The top-level modules a fresh interpreter has after running the code."""
    script = f"{code}\nimport sys, json; print('MODULES', json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
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
