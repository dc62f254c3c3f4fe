"""The files of a session of a real client, kept by its hooks: forked, gone on with in another client, and blamed."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from clients.clew_cli import Clew, Json
from clients.drivers import CLIENTS, Place
from clients.model_server import scripted
from clients.wire import Answer, Call

pytestmark = pytest.mark.clients

PATIENCE_SECONDS = 60
MAIN = "import sys\n\n\ndef main():\n    return 0\n"


def edit(path: Path, old: str, new: str) -> list[Call]:
    """Claude Code edits only a file that it has read."""
    return [
        Call("Read", {"file_path": str(path)}),
        Call("Edit", {"file_path": str(path), "old_string": old, "new_string": new}),
    ]


def turn(prompt: str, *calls: Call) -> str:
    return scripted(prompt, *(Answer("", (call,)) for call in calls), Answer("Done."))


def kept(clew: Clew, session: str, at_least: int) -> list[Json]:
    """The snapshots of a session, when there are so many; its hooks take them in the background."""
    end = time.monotonic() + PATIENCE_SECONDS
    points: list[Json] = []
    while len(points) < at_least:
        assert time.monotonic() < end, points
        points = clew.objects("workspace", "log", session)
        time.sleep(0.1)
    return points[::-1]


def test_files_fork_into_another_client_and_each_line_has_its_call(tmp_path: Path) -> None:
    claude, place = CLIENTS["claude-code"], Place(tmp_path)
    clew = Clew(tmp_path / "store")
    subprocess.run(["git", "init", "-q", str(place.cwd)], check=True)
    main, notes = place.cwd / "main.py", place.cwd / "notes.txt"
    main.write_text(MAIN)
    print(clew.store, notes, json, claude)
