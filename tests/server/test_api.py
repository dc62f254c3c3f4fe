"""The description of the API is true: schemathesis asks every operation for what it allows and for what it does not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clew.service import call
from clew.service.kernel.registry import load
from server.running import Running

HERE = Path(__file__).parent
EXAMPLES = int(os.environ.get("CLEW_API_EXAMPLES", "50"))


def asked(running: Running, folder: Path, *options: str) -> str:
    """What schemathesis says about a server."""
    running.key()
    sessions = [str(call(running.owner, "open", {"title": f"number {number}"}).id) for number in range(8)]
    environment = {
        **os.environ, "SCHEMATHESIS_HOOKS": "server.api_hooks", "PYTHONPATH": str(HERE.parent),
        "CLEW_TEST_SESSIONS": " ".join(sessions), "CLEW_TEST_STORE": running.url,
    }  # fmt: skip
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"), "run",
        f"{running.address}/openapi.json", "--checks", "all", "--continue-on-failure", "--no-color", *options,
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    return done.stdout


def count(name: str, text: str) -> int:
    found = re.search(rf"{name}: (\d+)", text)
    assert found, text
    return int(found[1])


def test_every_operation_does_what_the_description_says(tmp_path: Path) -> None:
    options = {"rate": 1e6, "burst": 1e6, "stream_seconds": 0.05}
    with Running(f"sqlite:///{tmp_path / 'clew.db'}", str(tmp_path), **options) as running:
        said = asked(running, tmp_path, "--phases", "fuzzing", "--max-examples", "2", "--seed", "7")
    # Two streams and five routes of plain bytes are no operations.
    assert count("Tested", said) == len([operation for operation in load().values() if operation.route]) + 7


@pytest.mark.campaign
def test_every_operation_does_so_for_long(store_url: str, tmp_path: Path) -> None:
    options = {"rate": 1e6, "burst": 1e6, "stream_seconds": 0.05}
    with Running(store_url, str(tmp_path), **options) as running:
        asked(running, tmp_path, "--phases", "coverage,fuzzing,stateful", "--max-examples", str(EXAMPLES))
