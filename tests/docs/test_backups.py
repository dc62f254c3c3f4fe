"""The commands of a backup, as the page shows them, save everything, for a role that row-level security applies to."""

import os
import re
import subprocess
from pathlib import Path

from clew.store import open_store
from docs.pages import ROOT
from isolation.tenants import tenant
from store.rows import content
from support.postgres import Server, find_programs, server_user

BLOCK = re.compile(r"### PostgreSQL\n\n```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_a_backup_of_postgresql_has_every_row(postgres: Server, tmp_path: Path) -> None:
    url, restored = postgres.walled_database(), postgres.walled_database()
    with open_store(url) as store:
        tenant(store, "apricot")
        tenant(store, "walnut")
        rows = content(store)
    shown = BLOCK.search((ROOT / "docs" / "operations.md").read_text("utf-8"))
    assert shown is not None
    lines = [line.replace("--dbname=restored", f"--dbname='{restored}'") for line in shown[1].splitlines()]
    script = "\n".join(line for line in lines if not line.startswith(("createdb", "clew")))
    assert "pg_dump" in script
    programs = find_programs(server_user())
    subprocess.run(
        ["sh", "-eu", "-c", script], cwd=tmp_path, check=True,
        env={"PATH": f"{programs}:{os.environ['PATH']}", "CLEW_STORE": url},
    )  # fmt: skip
    with open_store(restored) as store:
        assert content(store) == rows
    assert any(rows["event"])
