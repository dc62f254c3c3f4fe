"""Files of workspaces over HTTP: listed, read, and taken along as an archive; nobody restores on a server of others."""

import io
import os
import random
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clew.model.errors import Denied, InvalidInput, NotFound
from clew.remote import Remote
from clew.service import call
from clew.service.workspaces import opening
from server.running import Running, viewer
from support.fake_secrets import KINDS

TOKEN = KINDS["GITHUB_TOKEN"](random.Random(3))
LARGE = random.Random(4).randbytes(300_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("kept") / "shop"
    (made / "src" / "deep").mkdir(parents=True)
    (made / "src" / "run.sh").write_text("#!/bin/sh\n")
    (made / "src" / "run.sh").chmod(0o755)
    (made / "conf.txt").write_text(f"token = {TOKEN}\n")
    (made / "locked.bin").write_bytes(b"\0\1" + TOKEN.encode())
    (made / "locked-large.bin").write_bytes(bytes(200_000) + TOKEN.encode())
    (made / "large.bin").write_bytes(LARGE)
    (made / os.fsdecode(b"caf\xe9")).write_text("x")
    (made / "<b>.html").symlink_to("/etc")
    for number in range(5):
        (made / "src" / "deep" / f"{number}.txt").write_text(str(number))
    return made


@pytest.fixture(scope="module")
def session(running: Running, folder: Path) -> str:
    """A session whose files were kept where the store was open; then it is looked at over HTTP."""
    owner = running.authenticator.owner_context()
    id: str = call(owner, "open", {"project": "shop"}).id
    call(owner, "workspace_snapshot", {"session": id, "folder": str(folder)})
    (folder / "src" / "run.sh").write_text("#!/bin/bash\n")
    call(owner, "workspace_snapshot", {"session": id})
    return id


def test_a_folder_is_listed_in_pages(client: httpx2.Client, session: str) -> None:
    at = f"/v1/sessions/{session}/workspace/tree"
    found = client.get(at).json()
    assert [entry["name"] for entry in found["entries"]] == [
        "src", "<b>.html", "caf\\xe9", "conf.txt", "large.bin", "locked-large.bin", "locked.bin",
    ]  # fmt: skip
    src = found["entries"][0]
    assert (src["kind"], src["files"], src["mode"]) == ("folder", 6, "755")
    assert (found["seq"], found["total"], found["next"], found["is_folder"]) == (3, 7, "", True)
    page = client.get(at, params={"path": "src/deep", "limit": 2, "after": "1.txt"}).json()
    assert [entry["path"] for entry in page["entries"]] == ["src/deep/2.txt", "src/deep/3.txt"]
    assert (page["total"], page["next"]) == (5, "3.txt")
    [only] = client.get(at, params={"path": "src/run.sh", "at": 2}).json()["entries"]
    assert (only["path"], only["size"]) == ("src/run.sh", 10)
    assert client.get(at, params={"path": "../etc"}).status_code == 404
    assert client.get(at, params={"at": 1}).status_code == 404


def test_an_archive_has_all_files_without_their_secrets(
    running: Running, client: httpx2.Client, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "SHOWN_BYTES", 100_000)  # A larger file is read in pieces, twice.
    answer = client.get(f"/v1/sessions/{session}/workspace/tar", params={"at": 2})
    assert answer.headers["content-disposition"].endswith(f"{session[:10]}-2.tar")
    assert (answer.headers["x-clew-seq"], answer.headers["content-type"]) == ("2", "application/octet-stream")
    root = f"{session[:10]}-2"
    with tarfile.open(fileobj=io.BytesIO(answer.content), encoding="utf-8", errors="surrogateescape") as archive:
        members = {member.name.removeprefix(f"{root}/"): member for member in archive}
        data = {name: archive.extractfile(one).read() for name, one in members.items() if one.isfile()}  # type: ignore[union-attr]
    assert members.keys() == {
        root, "src", "src/deep", "src/run.sh", "conf.txt", "locked.bin", "locked-large.bin", "large.bin",
        "caf\udce9", "<b>.html", *(f"src/deep/{number}.txt" for number in range(5)),
    }  # fmt: skip
    assert (members["src/run.sh"].mode, data["src/run.sh"]) == (0o755, b"#!/bin/sh\n")
    assert (members["<b>.html"].linkname, members["src/deep"].isdir()) == ("/etc", True)
    assert data["large.bin"] == LARGE
    assert TOKEN.encode() not in answer.content
    assert data["conf.txt"].startswith(b"token = ")
    assert data["locked.bin"].startswith(b"[a file that stays where it is")
    assert data["locked-large.bin"].startswith(b"[locked-large.bin is binary and holds secrets")
    with closing(Remote(running.address, running.key())) as remote:  # The same through Python.
        assert b"".join(remote.open_tar(session, at=2).pieces) == answer.content
        assert b"".join(remote.open_file(session, "large.bin").pieces) == LARGE
        with pytest.raises(NotFound):
            remote.open_file(session, "nothing")


def test_a_file_is_read_as_it_is(client: httpx2.Client, session: str) -> None:
    at = f"/v1/sessions/{session}/workspace/raw"
    answer = client.get(at, params={"path": "src/run.sh"})
    assert answer.content == b"#!/bin/bash\n"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''run.sh"
    assert client.get(at, params={"path": "large.bin"}).content == LARGE
    assert TOKEN not in client.get(at, params={"path": "conf.txt"}).text
    for params, status in (
        ({"path": "locked.bin"}, 409), ({"path": "src"}, 400), ({"path": "<b>.html"}, 400), ({}, 400),
        ({"path": "src/run.sh", "at": "1x"}, 400), ({"path": "src/run.sh", "of": "x"}, 400),
    ):  # fmt: skip
        assert client.get(at, params=params).status_code == status, params


def test_only_who_may_read_the_session_gets_its_files(running: Running, session: str) -> None:
    with running.client(running.key("bo", viewer("bo", project="elsewhere"))) as stranger:
        for route in ("tree", "tar", "raw?path=conf.txt"):
            assert stranger.get(f"/v1/sessions/{session}/workspace/{route}").status_code == 404


def test_nobody_restores_on_a_server_of_others(running: Running, session: str, tmp_path: Path) -> None:
    """The person of the machine may, through the server that `clew up` starts."""
    asked: dict[str, Any] = {"session": session, "folder": str(tmp_path / "copy")}
    key = running.key()
    with pytest.raises(Denied):
        call(running.authenticator.authenticate(key), "workspace_checkout", asked)
    with closing(Remote(running.address, key)) as remote, pytest.raises(InvalidInput, match="on the machine itself"):
        remote.call("workspace_checkout", **asked)
    assert not (tmp_path / "copy").exists()
    call(running.authenticator.owner_context(), "workspace_checkout", asked)
    assert (tmp_path / "copy" / "src" / "run.sh").exists()
