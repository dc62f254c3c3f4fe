"""`clew audit`, as people run it."""

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from cli.conftest import Clew, Run


@pytest.fixture
def clew(tmp_path: Path) -> Clew:
    """Runs `clew` with these arguments on a store of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    environment = {**kept, "CLEW_HOME": str(tmp_path / "home"), "CLEW_PRINCIPAL": "person:ada", "NO_COLOR": "1"}

    def run(*arguments: str, stdin: str = "", **more: str) -> Run:
        argv = [sys.executable, "-m", "clew", *arguments]
        done = subprocess.run(
            argv, input=stdin, env={**environment, **more}, capture_output=True, text=True, timeout=120, check=False
        )
        return Run(done)

    return run


def test_a_day_of_an_auditor(clew: Clew, tmp_path: Path) -> None:
    session = clew("open", "--title", "one").out.strip()
    clew("retention", "set", "default", "--keep-days", "90")
    made = clew("audit", "checkpoint")
    assert made.out.startswith("clew/")
    assert "keep it elsewhere" in made.err
    kept = tmp_path / "kept.txt"
    kept.write_text(made.out)
    key = clew("audit", "key").out.strip()

    log = clew("audit", "log", "--json")
    assert [line["operation"] for line in log.objects] == ["retention_set"]
    proof = clew("audit", "proof", session)
    assert proof.out.startswith("c2sp.org/tlog-proof@v1\nextra ")
    assert proof.out.endswith(made.out)

    verified = clew("audit", "verify", "--checkpoint", str(kept), "--key", key)
    assert (verified.code, verified.err) == (0, "")
    assert "everything holds" in verified.out

    bundle = tmp_path / "bundle.jsonl"
    assert clew("audit", "export", "--out", str(bundle)).out == f"{bundle}\n"
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert clew("audit", "export", "--out", str(bundle)).code == 4
    # No store, no home, no key of its own.
    alone = {"CLEW_STORE": "postgresql://nowhere.invalid/none", "CLEW_HOME": str(tmp_path / "nowhere")}
    offline = clew("audit", "verify", "--bundle", str(bundle), "--checkpoint", str(kept), "--key", key, **alone)
    assert (offline.code, offline.err) == (0, "")
    piped = clew("audit", "verify", "--bundle", "-", "--json", stdin=bundle.read_text(), **alone)
    assert (piped.code, piped.objects[0]["problems"]) == (0, [])
    assert not (tmp_path / "nowhere").exists()

    bundle.write_text(bundle.read_text().replace('"seq":1', '"seq":2', 1))
    assert clew("audit", "verify", "--bundle", str(bundle), "--key", key, **alone).code == 8
    bundle.write_text("no bundle")
    refused = clew("audit", "verify", "--bundle", str(bundle), **alone)
    assert (refused.code, "line 1 of the bundle cannot be read" in refused.err) == (8, True)

    connection = apsw.Connection(str(tmp_path / "home" / "clew.db"))
    connection.execute("UPDATE event SET actor = 'person:mallory' WHERE seq = 1 AND session = 1")
    connection.close()
    found = clew("audit", "verify", "--checkpoint", str(kept))
    assert found.code == 8
    assert f"session {session} seq 1" in found.out
    assert "1 problem" in found.out
