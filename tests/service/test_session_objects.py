"""The objects of a session: put in one step, found by name or digest, read by whoever reads the session."""

import io
import random
from pathlib import Path

import msgspec
import pytest

from clew.client import OpenSession, Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import Conflict, Denied, InvalidInput, NotFound, WrongState
from clew.model.events import ArtifactSaved, Draft, FilePart, MessageAdded
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.store import Store
from clew.store.access.grants import add_grant
from clew.store.access.principals import Principal, set_principal
from clew.store.objects import objects
from clew.store.objects.collection import collect
from server.running import viewer
from store.rows import query
from support.fake_secrets import KINDS

ME = "person:ada"
TOKEN = KINDS["GITHUB_TOKEN"](random.Random(3))
VIDEO = bytes([0, 1, 2, 3]) + random.Random(4).randbytes(3_000_000)


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    return Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(tmp_path))


@pytest.fixture
def plane(context: Context) -> Plane:
    return Plane(Local(context))


@pytest.fixture
def session(plane: Plane) -> OpenSession:
    return plane.session("t", project="shop")


def for_others(context: Context) -> Context:
    """The same caller, whose answers leave the machine."""
    return msgspec.structs.replace(context, answers_leave_machine=True)


def read(context: Context, session: OpenSession, name: str) -> bytes:
    return b"".join(call(context, "object_open", {"session": session.id, "object": name}).pieces)


def test_what_was_put_is_listed_described_and_read(session: OpenSession, store: Store) -> None:
    put = session.put("video.mp4", io.BytesIO(VIDEO))
    assert (put.size, put.media_type, put.seq) == (len(VIDEO), "video/mp4", 2)
    assert session.stat("video.mp4") == session.stat(put.digest) == session.stat(put.digest[:9]) == put
    assert session.objects == [put]
    with session.open("video.mp4") as stream:
        assert stream.read(10) + stream.read() == VIDEO
    collect(store, grace_us=0)
    assert session.open(put.digest).read() == VIDEO


def test_the_newest_of_a_name_comes_first_and_all_are_found_by_their_digests(session: OpenSession) -> None:
    first, second = session.put("notes", b"first"), session.put("notes", [b"sec", b"ond"])
    assert session.open("notes").read() == b"second"
    assert session.open(first.digest).read() == b"first"
    assert session.objects == [second, first]


def test_the_same_bytes_under_the_same_name_are_stored_once(session: OpenSession) -> None:
    assert session.put("notes", b"same") == session.put("notes", b"same")
    assert session.head == 2
    assert session.put("other", b"same").seq == 3


def test_images_and_files_of_messages_are_objects_of_a_session(session: OpenSession, store: Store) -> None:
    blob = objects.save(store, b"an image")
    part = FilePart(blob=blob, media_type="image/png", name="shot.png")
    store.append(store.session(session.id), [Draft(body=MessageAdded(role="user", parts=(part,)))], actor=ME)
    assert session.open("shot.png").read() == b"an image"
    assert session.stat("shot.png").media_type == "image/png"
    fork = session.fork()
    assert fork.open("shot.png").read() == b"an image"


def test_what_an_object_names_is_read_where_the_object_is(session: OpenSession, store: Store) -> None:
    leaf = objects.put(store, [b"leaf"])
    listing = objects.put(store, [leaf.encode()], names=[leaf])
    body = ArtifactSaved(name="tree", blob=listing, size=64)
    store.append(store.session(session.id), [Draft(body=body)], actor=ME)
    assert session.open(leaf).read() == b"leaf"
    assert session.stat(leaf).seq == 0
    other = objects.save(store, b"of nobody")
    for unknown in (other, other[:10], "nothing", "ff" * 32):
        with pytest.raises(NotFound):
            session.open(unknown)


def test_a_session_that_takes_nothing_refuses_an_object_before_it_is_read(session: OpenSession, store: Store) -> None:
    session.close()

    def pieces() -> bytes:
        raise AssertionError("the bytes were read")

    with pytest.raises(WrongState):
        session.put("late", iter(pieces, b""))
    assert query(store, "SELECT 1 FROM blob") == []


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "x" * 501])
def test_a_name_that_is_none_is_refused(session: OpenSession, name: str) -> None:
    with pytest.raises(InvalidInput):
        session.put(name, b"x")


def test_an_object_is_read_and_put_by_whoever_may_read_and_append(context: Context, session: OpenSession) -> None:
    session.put("notes", b"mine")
    store = context.store
    for name in ("person:bob", "person:eve"):
        set_principal(store, Principal(name=name))
    add_grant(store, viewer("person:bob", project="shop"), given_by=ME)
    authenticator = Authenticator(store, home=context.home, fresh_seconds=0)
    bob, eve = (authenticator.principal_context(name) for name in ("person:bob", "person:eve"))
    assert read(bob, session, "notes") == b"mine"
    with pytest.raises(Denied):
        call(bob, "object_put", {"session": session.id, "source": io.BytesIO(b"x"), "name": "x"})
    for operation in ("object_open", "object_stat"):
        with pytest.raises(NotFound):
            call(eve, operation, {"session": session.id, "object": "notes"})


# Secrets --------------------------------------------------------------------------------------------------------------


def test_no_secret_in_a_text_leaves_the_machine(context: Context, session: OpenSession) -> None:
    text = b"words " * 300_000 + f"use {TOKEN} for it".encode() + b" words" * 300_000
    session.put("log.txt", text)
    assert read(context, session, "log.txt") == text
    masked = read(for_others(context), session, "log.txt")
    assert TOKEN.encode() not in masked
    assert masked[:1000] == text[:1000]
    assert masked[-1000:] == text[-1000:]


@pytest.mark.parametrize("at", [500, 1_048_576 - 15, 2_500_000, len(VIDEO) - 60])
def test_no_part_of_a_secret_in_a_binary_object_leaves_the_machine(
    context: Context, session: OpenSession, at: int
) -> None:
    session.put("video.mp4", VIDEO)
    assert read(for_others(context), session, "video.mp4") == VIDEO
    session.put("core.bin", VIDEO[:at] + f" {TOKEN} ".encode() + VIDEO[at + 50 :])
    sent = b""
    with pytest.raises(Conflict, match="secrets"):  # noqa: PT012
        for piece in call(for_others(context), "object_open", {"session": session.id, "object": "core.bin"}).pieces:
            sent += piece
    assert VIDEO.startswith(sent)
    assert TOKEN[:8].encode() not in sent


def test_a_project_that_keeps_no_secrets_stores_none_in_objects(context: Context, session: OpenSession) -> None:
    call(context, "setting_set", {"project": "shop", "name": "secrets", "value": "mask"})
    context._cache.clear()  # The next process has read the settings anew.
    session.put("log.txt", f"use {TOKEN} for it".encode())
    assert TOKEN.encode() not in session.open("log.txt").read()
    with pytest.raises(Conflict, match="secrets"):
        session.put("core.bin", VIDEO + f" {TOKEN} ".encode())
    assert [info.name for info in session.objects] == ["log.txt"]
