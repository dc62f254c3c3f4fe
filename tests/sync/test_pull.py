"""Pull: a session comes to another machine with all it has, goes on there, and comes back; nothing is there twice."""

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import zstandard

from capture.test_projects import project_in
from clew.model.errors import Conflict, NotFound, WrongState
from clew.remote import Remote
from clew.service import call
from clew.service.replication import remotes
from clew.service.replication.push import Push
from clew.store.log.sessions import keys_of
from clew.store.native_files.lookup import files_of
from clew.store.objects import objects
from server.running import Running, writer
from support import claude
from support.fake_secrets import some
from support.repositories import repository
from sync.machines import PROJECT, Machine, images, sound, texts, told

Start = Any
SQLITE = pytest.mark.parametrize("database", ["sqlite"])


def test_a_session_goes_on_elsewhere_and_comes_home(running: Running, machine: Start) -> None:
    first: Machine = machine(box="first")
    parent = first.open("plan it", title="The plan")
    child = first.plane.client.call("fork", session=parent, title="The work").id
    shot = objects.save(first.store, images(1)[0] * 3000)
    first.show(child, shot)
    first.plane.client.call("pause", session=child, reason="on the train")
    first.push()
    second: Machine = machine(box="second")
    came = second.pull(child[:12])
    assert (came.session, came.is_new, came.flat, came.blobs) == (child, True, False, 1)
    assert [second.told(id) for id in (parent, child)] == [first.told(id) for id in (parent, child)]
    assert second.store.session(child).parent == parent, "its ancestor comes along"
    assert objects.load(second.store, shot) == images(1)[0] * 3000
    assert {event.actor for event in second.store.read(second.store.session(child))} == {"person:ada"}
    again = second.pull(child)
    assert (again.events, again.is_new) == (0, False)

    second.plane.client.call("resume", session=child)
    second.say(child, "from the second")
    assert (second.push().events, second.push().events) == (2, 0)
    first.plane.client.call("resume", session=child)
    first.say(child, "from the first")
    first.push()
    for one in (first, second):
        one.pull(child)
        assert one.pull(child).events == 0
    server = running.authenticator.store
    assert sorted(texts(server, child)[2:]) == ["from the first", "from the second"]
    for one in (first, second):
        assert _but_resumed(one.told(child)) == _but_resumed(told(server, child)), "resumed twice, and once there"
        assert (one.push().events, one.push(again=True).events) == (0, 0), "nothing goes back and forth"
    sound(server, first.store, second.store)


def _but_resumed(events: list[Any]) -> list[str]:
    return sorted(str(event) for event in events if event[0] != "session_resumed")


def test_what_is_too_large_for_memory_stays_where_it_is(
    running: Running, machine: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session comes over all the same, with a note in place of the bytes."""
    first: Machine = machine(box="first")
    id = first.open("plan it")
    first.show(id, objects.save(first.store, images(3)[2]))
    first.push()
    late = first.open("plan more")
    monkeypatch.setattr(objects, "LOADED_BYTES", 500)
    first.show(late, objects.save(first.store, b"\x01" * 501))
    first.push()
    second: Machine = machine(box="second")
    for session, where in ((id, "on the server"), (late, "in the store it was put into")):
        second.pull(session)
        [event] = [event for event in second.store.read(second.store.session(session)) if "blob" in str(event.body)]
        [part] = event.body.parts  # type: ignore[union-attr]
        assert f"a file that stays {where}".encode() in objects.load(second.store, part.blob)


@SQLITE
def test_a_fork_comes_flat_when_its_ancestor_cannot_be_read(running: Running, machine: Start) -> None:
    parent = call(running.owner, "open", {"project": PROJECT, "title": "the owner's", "private": True}).id
    call(running.owner, "append", {"session": parent, "drafts": [{**_said("only for me"), "source": "m1"}]})
    child = call(running.owner, "fork", {"session": parent}).id
    call(running.owner, "append", {"session": child, "drafts": [_said("for all")]})
    call(running.owner, "privacy", {"session": child, "private": False})
    here: Machine = machine()
    came = here.pull(child)
    assert came.flat
    assert texts(here.store, child) == ["only for me", "for all"]
    assert not keys_of(here.store.database, [parent])
    with pytest.raises(NotFound):
        here.pull(parent)
    here.say(child, "and mine")
    here.ask(child)
    here.push()
    assert texts(running.authenticator.store, child) == ["only for me", "for all", "and mine"]
    assert here.push(again=True).events == 0, "what it shares with the ancestor is known there"
    sound(running.authenticator.store, here.store)


def _said(text: str) -> dict[str, str]:
    return {"kind": "message_added", "role": "user", "text": text}


@SQLITE
def test_native_files_come_too_and_the_session_resumes_in_another_program(
    running: Running, machine: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: Machine = machine(box="first", project="app", grants=[writer("person:ada")])
    path = claude.transcript(tmp_path / "programs")
    path.write_bytes(claude.lines(claude.story()))
    [report] = first.plane.capture([str(path)])
    first.push()
    second: Machine = machine(box="second")
    came = second.pull(report.session)
    assert (came.files, came.masked) == (1, 0)
    [exported] = second.plane.client.call("export", session=report.session, form="native", secrets=True)
    assert exported.data == path.read_bytes()
    assert second.pull(report.session).files == 0
    path.write_bytes(path.read_bytes() + claude.lines([claude.says("more", "a5", "one more thing")]))
    first.plane.capture([str(path)]).__next__()
    first.push()
    assert second.pull(report.session).files == 1
    [exported] = second.plane.client.call("export", session=report.session, form="native", secrets=True)
    assert exported.data == path.read_bytes()
    assert not first.pull(report.session).files, "the file itself is here"
    assert len(files_of(first.store, first.store.session(report.session))) == 1

    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    made = second.plane.resume_in(report.session, "codex", cwd=str(tmp_path))
    assert made.fidelity.carried["prompts"] == 3
    assert Path(made.files[0]).is_relative_to(tmp_path)
    sound(running.authenticator.store, first.store, second.store)


@SQLITE
def test_what_was_pulled_from_one_team_is_not_passed_on_to_another(
    running: Running, machine: Start, tmp_path: Path
) -> None:
    home = tmp_path / "other"
    home.mkdir()
    with Running(f"sqlite:///{home / 'clew.db'}", str(home)) as other:
        here: Machine = machine()
        theirs = call(running.owner, "open", {"project": PROJECT, "title": "the team's"}).id
        here.pull(theirs)
        mine = here.open("ours")
        fork = here.plane.client.call("fork", session=theirs).id
        setting = remotes.Setting(name="rivals", url=other.address, projects=[PROJECT])
        remotes.save(here.home, setting)
        remote = Remote(other.address, other.key("person:me", writer("person:me")))
        Push(here.context, here.home, setting, remote).run()
        remote.close()
        assert keys_of(other.authenticator.store.database, [theirs, fork, mine]).keys() == {mine}


@SQLITE
def test_a_copy_is_never_taken_for_a_file_of_this_machine(
    running: Running, machine: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write to a session could else have a file of theirs put among the settings of a program."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CLEW_MACHINE", "victim")
    here: Machine = machine()
    running.key("person:eve", writer("person:eve", project=PROJECT))
    eve = running.authenticator.principal_context("person:eve")
    id = call(eve, "open", {"project": PROJECT}).id
    attached = {"kind": "runtime_attached", "runtime": "claude-code", "cwd": str(tmp_path), "machine": "victim"}
    call(eve, "append", {"session": id, "drafts": [attached, _said("hello")]})
    planted = tmp_path / "claude" / "settings.json"
    file = {
        "runtime": "claude-code", "format": "claude-code", "path": str(planted), "native": "x", "machine": "victim",
    }  # fmt: skip
    call(eve, "sync_original", {"session": id, "file": file, "stretches": [{"data": b"{}\n", "upto": 3}]})
    here.pull(id)
    [copy] = here.plane.client.call("originals", session=id)
    assert (copy.path, copy.machine) == (str(planted), "victim")
    here.plane.resume_in(id, "claude-code", cwd=str(tmp_path))
    assert not planted.exists()


@SQLITE
def test_a_server_cannot_write_into_what_was_never_shared_with_it(running: Running, machine: Start) -> None:
    here: Machine = machine()
    mine = here.open("my own", private=True)
    running.key("person:eve", writer("person:eve", project=PROJECT))
    eve = running.authenticator.principal_context("person:eve")
    call(eve, "sync_open", {"session": mine, "project": PROJECT})
    call(eve, "append", {"session": mine, "drafts": [_said("planted")]})
    child = call(eve, "fork", {"session": mine}).id
    with pytest.raises(Conflict, match="never shared with team"):
        here.pull(mine)
    assert here.pull(child).flat
    assert (texts(here.store, mine), texts(here.store, child)) == (["my own"], ["planted"])


@SQLITE
def test_what_was_erased_there_cannot_be_pulled(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("gone soon")
    here.push()
    call(running.owner, "erase", {"session": id})
    with pytest.raises(WrongState, match="was erased on team"):
        here.pull(id)


# Secrets --------------------------------------------------------------------------------------------------------------


def test_no_secret_ever_reaches_the_server(
    running: Running, machine: Start, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(7)
    canaries = [f"gh{'p_'}{some('abcdefghijkmnpqrstuvwxyz23456789', 36)(chance)}" for _ in range(6)]
    title, said, noted, attached, logged, binary = canaries
    first: Machine = machine(box="first", project="app", grants=[writer("person:ada")])
    id = first.open(f"it says GITHUB_TOKEN={said}", project="app", title=f"token {title}", metadata={"x": noted})
    first.show(id, objects.save(first.store, f"export GITHUB_TOKEN={attached}\n".encode()))
    first.show(id, objects.save(first.store, b"\0\0binary GITHUB_TOKEN=" + binary.encode()))
    path = claude.transcript(tmp_path / "programs")
    path.write_bytes(claude.lines([claude.says("u1", None, f"use GITHUB_TOKEN={logged} for it")]))
    [report] = first.plane.capture([str(path)])
    done = first.push()
    assert done.masked["github-pat"] >= 6
    second: Machine = machine(box="second", project="app", grants=[])
    came = second.pull(report.session)
    assert came.masked == 1, "it is said that the file is not byte for byte what was captured"
    second.pull(id)
    [file] = second.plane.client.call("export", session=report.session, form="native", secrets=True)
    assert b"GITHUB_TOKEN=[REDACTED:github-pat:" in file.data
    running.stop()
    places = [tmp_path / "served", tmp_path / "second"]
    if database == "sqlite":
        places.append(tmp_path / "server-store")
        places[-1].mkdir()
        for one in tmp_path.glob("clew*"):
            shutil.copy(one, places[-1])
        if (tmp_path / "blobs").exists():
            shutil.copytree(tmp_path / "blobs", places[-1] / "blobs")
    else:
        with psycopg.connect(running.url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        places.append(request.getfixturevalue("postgres").data_directory)
    held = _unpacked(places)
    assert b"REDACTED:github-pat" in held, "nothing was looked at"
    for canary in canaries:
        assert canary.encode() not in held
    running.start()


def _unpacked(places: list[Path]) -> bytes:
    """All bytes below some folders, and what those hold that are packed."""
    found = []
    for place in places:
        for folder, _, names in os.walk(place):
            for name in names:
                data = (Path(folder) / name).read_bytes()
                found.append(data)
                at = data.find(b"\x28\xb5\x2f\xfd")
                while at >= 0:
                    with suppress(zstandard.ZstdError):
                        found.append(zstandard.ZstdDecompressor().decompressobj().decompress(data[at : at + 200_000]))
                    at = data.find(b"\x28\xb5\x2f\xfd", at + 1)
    return b"\n".join(found)


@SQLITE
def test_a_session_goes_into_the_project_of_its_repository_and_never_of_another(
    running: Running, machine: Start, tmp_path: Path
) -> None:
    """Two people call different repositories `shop`, and two machines call one repository differently."""
    first: Machine = machine(box="first")
    person = tmp_path / "globex"
    folder = repository(tmp_path / "globex" / "shop", remote="git@github.com:globex/shop.git")
    assert project_in(first.plane, person, folder) == "shop"
    [line] = first.plane.sessions()
    first.push()
    other: Machine = machine(box="other")
    acme = repository(tmp_path / "acme" / "shop", remote="git@github.com:acme/shop.git")
    assert project_in(other.plane, tmp_path / "acme", acme) == "shop"
    other.pull(line.id)
    assert other.store.session(line.id).project == "globex-shop"
    clone = repository(tmp_path / "clone" / "shop", remote="https://github.com/globex/shop")
    assert project_in(other.plane, tmp_path / "clone", clone) == "globex-shop"
    third: Machine = machine(box="third")
    assert project_in(third.plane, tmp_path / "clone", clone) == "shop"
    third.plane.client.call("project_rename", project="shop", name="store")
    third.pull(line.id)
    assert third.store.session(line.id).project == "store"
