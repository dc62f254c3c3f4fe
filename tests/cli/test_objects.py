"""`clew object`: files go into a session and come out as they were."""

import os
import sys
from pathlib import Path

import pytest

from cli.conftest import Clew
from support.terminal import Terminal

NOISE = bytes(range(256)) * 9000


def test_a_file_goes_in_and_comes_out_as_it_was(clew: Clew, session: str, tmp_path: Path) -> None:
    (tmp_path / "video.mp4").write_bytes(NOISE)
    put = clew("object", "put", session, str(tmp_path / "video.mp4"), "--json").objects[0]
    assert (put["name"], put["size"], put["media_type"], put["seq"]) == ("video.mp4", len(NOISE), "video/mp4", 2)
    assert clew("object", "list", session, "--json").objects == [put]
    assert clew("object", "stat", session, "video.mp4", "--json").objects == [put]
    out = tmp_path / "out"
    assert clew("object", "open", session, put["digest"][:10], "-o", str(out)).out == f"{out}\n"
    assert out.read_bytes() == NOISE
    assert out.stat().st_mode & 0o777 == 0o600
    (tmp_path / "folder").mkdir()
    clew("object", "open", session, "video.mp4", "-o", str(tmp_path / "folder"))
    assert (tmp_path / "folder" / "video.mp4").read_bytes() == NOISE


def test_standard_input_goes_in_and_standard_output_has_the_exact_bytes(clew: Clew, session: str) -> None:
    assert "event 2: notes.md" in clew("object", "put", session, "-", "--name", "notes.md", stdin="\x1b[31mred\n").out
    assert clew("object", "open", session, "notes.md").out == "\x1b[31mred\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["put", "ID", "/no/such/file"], "cannot read /no/such/file"),
        (["put", "ID", "-"], "--name"),
        (["open", "ID", "nothing"], "names no object 'nothing'"),
        (["stat", "ID", "nothing"], "names no object 'nothing'"),
        (["open", "ID", "notes", "-o", "/no/such/folder/x"], "cannot write"),
    ],
)
def test_what_cannot_be_done_is_said(clew: Clew, session: str, words: list[str], said: str) -> None:
    clew("object", "put", session, "-", "--name", "notes", stdin="x")
    done = clew("object", *(session if word == "ID" else word for word in words))
    assert (done.code, done.out) != (0, "")
    assert said in done.err


def test_no_file_is_overwritten_and_a_name_in_a_log_leads_out_of_no_folder(
    clew: Clew, session: str, tmp_path: Path
) -> None:
    clew("object", "put", session, "-", "--name", "../../evil", stdin="x")
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "evil"
    assert clew("object", "open", session, "../../evil", "-o", str(tmp_path / "folder")).out == f"{path}\n"
    again = clew("object", "open", session, "../../evil", "-o", str(path))
    assert "exists and was not changed" in again.err


def test_a_terminal_shows_a_text_without_control_codes_and_nothing_else(
    clew: Clew, session: str, home: Path, tmp_path: Path
) -> None:
    clew("object", "put", session, "-", "--name", "notes", stdin="before \x1b[2J after\n")
    (tmp_path / "video.mp4").write_bytes(NOISE)
    clew("object", "put", session, str(tmp_path / "video.mp4"))
    env = {**os.environ, "CLEW_HOME": str(home), "NO_COLOR": "1"}
    with Terminal([sys.executable, "-m", "clew", "object", "open", session, "notes"], env) as terminal:
        assert r"before \x1b[2J after" in terminal.expect("after")
    with Terminal([sys.executable, "-m", "clew", "object", "open", session, "video.mp4"], env) as terminal:
        terminal.expect("this object is no text")
