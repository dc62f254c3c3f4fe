"""The PostgreSQL server that other tests stand on keeps its own promises."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from support.postgres import Server

WAITING_SERVER = """
import time
from support.postgres import Server
with Server() as server:
    print(server.data_directory, flush=True)
    time.sleep(600)
"""


def test_a_committed_row_survives_a_crash() -> None:
    with Server() as server:
        url = server.new_database()
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS id")
        server.crash()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        server.restart_after_crash()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT id FROM kept").fetchall() == [(7,)]


def test_the_loopback_port_wants_the_password() -> None:
    with Server(loopback=True) as server:
        url = server.loopback_url("postgres")
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(url, password="")


def test_a_killed_test_process_leaves_no_server_behind() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", WAITING_SERVER], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        data_directory = Path(process.stdout.readline().decode().strip())
        assert (data_directory / "postmaster.pid").exists()
        process.kill()
    deadline = time.monotonic() + 30
    while data_directory.parent.exists():
        assert time.monotonic() < deadline, "the server outlived the process that started it"
        time.sleep(0.05)
