"""A disk that is really full: a small file system in memory that only the child sees (T4)."""

import os
import subprocess
from pathlib import Path

import pytest

from support.children import Child

MOUNT = 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"'


def small_disk(folder: Path, size: str) -> list[str]:
    """The command line that runs what follows it where `folder` is a small disk; skips where no user may do that."""
    reason = ""
    for unshare in (["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]):
        command = [*unshare, "sh", "-c", MOUNT, size, str(folder)]
        try:
            done = subprocess.run([*command, "true"], capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("unshare is not installed: apt-get install util-linux")
        if done.returncode == 0:
            return command
        reason = done.stderr.strip()
    pytest.skip(f"this user (id {os.getuid()}) may not mount a file system of its own: {reason}")


@pytest.mark.parametrize(
    ("disk", "size", "least"),
    [
        pytest.param("6m", 2_000, 100, id="before the first checkpoint"),
        pytest.param("13m", 2_000, 400, id="after a checkpoint"),
        pytest.param("5m", 150_000, 10, id="texts in blobs"),
    ],
)
@pytest.mark.parametrize("threads", [1, 4])
def test_a_full_disk_refuses_appends_loses_nothing_and_goes_on_when_there_is_room(
    disk: str, size: int, least: int, threads: int, tmp_path: Path
) -> None:
    with Child("fill_disk.py", tmp_path, size, threads, under=small_disk(tmp_path, disk)) as child:
        child.finish()
        code, *message = child.hear("failed")
        assert code == "disk_full"
        assert {"no", "room", "free"} <= set(message), f"the message does not say what to do: {message}"
        (acknowledged,) = child.hear("acknowledged")
        assert int(acknowledged) >= least
        assert threads > 1 or child.heard("again") == [["disk_full"]]
        # One alone may still find room where several together did not.
        assert {code for (code,) in child.heard("again") + child.heard("other")} <= {"disk_full", "none"}
        assert child.heard("readable") == [["full"], ["second"], ["afterwards"]]
        assert child.heard("left") == [[]], "unfinished files were left behind"


def test_a_log_that_finds_no_room_to_be_opened_says_so(tmp_path: Path) -> None:
    with Child("fill_disk.py", tmp_path, 2_000, 1, under=small_disk(tmp_path, "4m")) as child:
        child.finish()
        assert child.heard("opened") == [["disk_full"]]
