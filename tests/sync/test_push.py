"""Push: everything that is shared arrives once and in order, and nothing else ever leaves."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from clew.model.access import Grant, Right
from clew.model.errors import ClewError, Denied, NotFound, Unauthenticated, Unavailable
from clew.model.events import Budget, BudgetSet, Draft, MessageAdded
from clew.model.ids import new_id
from clew.service import Context, call
from clew.service.kernel.registry import load
from clew.service.replication.push import Push
from clew.store.log.sessions import keys_of
from clew.store.native_files import remote_copies
from clew.store.native_files.lookup import files_of
from clew.store.native_files.stored_bytes import load_bytes
from clew.store.objects import objects
from server.running import Running, viewer, writer
from support import claude
from sync.machines import PROJECT, Machine, images, sound, texts, told

Start = Any
# What does not differ between the databases is tried on one.
SQLITE = pytest.mark.parametrize("database", ["sqlite"])


def test_push_twice_is_push_once(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("why does it lock?", title="Fix the lock")
    fork = here.plane.client.call("fork", session=id, at=2, title="the other way").id
    here.say(fork, "use WAL")
    here.say(id, "x" * 900_000, role="assistant")
    small, large = images(2)[0], images(1)[0] * 3000
    shots = [objects.save(here.store, data) for data in (small, large)]
    here.show(id, *shots)
    here.plane.client.call("close", session=id, summary="done")
    server = running.authenticator.store
    first, second, third = here.push(), here.push(), here.push(again=True)
    assert (first.sessions, first.events, first.blobs) == (2, 5, 2)
    assert (second.events, third.events) == (0, 0)
    assert [one.refused for one in (first, second, third)] == [{}, {}, {}]
    for one in (id, fork):
        assert told(server, one) == here.told(one)
    assert server.session(fork).parent == id, "a fork comes as a fork"
    assert objects.load(server, shots[1]) == large
    assert (server.session(id).title, server.head(server.session(id)).state) == ("Fix the lock", "closed")
    assert {event.actor for event in server.read(server.session(id))} == {"person:ada"}, "who said it is who came in"
    assert here.store.head(here.store.session(id)).head == server.head(server.session(id)).head
    sound(server, here.store)


@SQLITE
def test_labels_are_pushed_and_pulled(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("why does it lock?")
    session = here.plane.get(id)
    session.title("Fix the lock")
    session.tag("work", "urgent")
    session.tag("urgent", remove=True)
    session.star()
    session.note("ask Bob")
    here.push()
    server = running.authenticator.store
    assert server.session(id).title == "Fix the lock"
    ada = running.authenticator.principal_context("person:ada")
    there = call(ada, "show", {"session": id})
    line = there.session
    assert (line.tags, line.starred, [note.text for note in there.notes]) == (("work",), True, ["ask Bob"])
    assert not call(running.owner, "show", {"session": id}).session.starred, "the star is of who pushed it"
    call(running.owner, "star", {"session": id})
    call(running.owner, "tag", {"session": id, "tags": ["seen"]})
    call(running.owner, "close", {"session": id})
    call(running.owner, "archive", {"session": id})
    call(ada, "tag", {"session": id, "tags": ["late"]})
    other: Machine = machine(box="second")
    other.plane.pull(id)
    pulled = other.plane.get(id).info
    assert (pulled.title, pulled.tags, pulled.starred) == ("Fix the lock", ("late", "seen", "work"), False)
    assert pulled.state == "archived"
    sound(server, here.store, other.store)


@SQLITE
def test_a_captured_session_comes_with_its_file_as_that_grows(running: Running, machine: Start, tmp_path: Path) -> None:
    here: Machine = machine(project="app", grants=[writer("person:ada")])
    path = claude.transcript(tmp_path / "programs")
    story = claude.story()
    server = running.authenticator.store
    for upto in (5, 9, len(story)):
        path.write_bytes(claude.lines(story[:upto]))
        [report] = here.plane.capture([str(path)])
        done = here.push()
        assert not done.refused
        assert done.files == 1
        [one] = files_of(server, server.session(report.session))
        assert load_bytes(server, one) == path.read_bytes()
    assert here.push().files == 0
    assert told(server, report.session) == here.told(report.session)
    exported = call(running.owner, "export", {"session": report.session, "form": "native"})
    assert exported[0].data == path.read_bytes()
    sound(server)


@SQLITE
def test_a_long_file_is_sent_once_and_then_only_its_end(running: Running, machine: Start, tmp_path: Path) -> None:
    here: Machine = machine(project="app", grants=[writer("person:ada")])
    path = claude.transcript(tmp_path / "programs")
    lines = [claude.says(f"u{n}", f"u{n - 1}" if n else None, f"{n} " + "long " * 8000) for n in range(20)]
    path.write_bytes(claude.lines(lines))
    [report] = here.plane.capture([str(path)])
    here.push()
    server = running.authenticator.store
    [before] = files_of(server, server.session(report.session))
    settled = remote_copies.progress_of(before).settled
    assert 0 < settled < before.stored_bytes
    path.write_bytes(path.read_bytes() + claude.lines([claude.says("last", "u19", "the end")]))
    here.plane.capture([str(path)]).__next__()
    requests = _pushed_and_sniffed(here)
    [after] = files_of(server, server.session(report.session))
    assert load_bytes(server, after) == path.read_bytes()
    assert sum(map(len, requests)) < 1.5 * (len(path.read_bytes()) - settled) + 10_000
    assert remote_copies.progress_of(after).settled == settled


@SQLITE
def test_what_is_not_shared_or_private_never_leaves(running: Running, machine: Start) -> None:
    here: Machine = machine()
    shown = here.open("for the team")
    hidden = [
        here.open("canary of another project", project="diary"),
        here.open("canary of a private session", private=True),
    ]
    hidden.append(here.plane.client.call("fork", session=hidden[1], title="canary fork").id)
    requests = _pushed_and_sniffed(here)
    assert texts(running.authenticator.store, shown) == ["for the team"]
    for word in (b"canary", b"diary", *(id.encode() for id in hidden)):
        assert not [one for one in requests if word in one], word
    here.ask(hidden[1])
    here.push()
    arrived = running.authenticator.store.session(hidden[1])
    assert arrived.private, "a private session that was asked for stays private"
    assert (arrived.owner, texts(running.authenticator.store, hidden[1])) == (
        "person:ada",
        ["canary of a private session"],
    )
    with pytest.raises(NotFound):
        running.authenticator.store.session(hidden[0])


def _pushed_and_sniffed(here: Machine) -> list[bytes]:
    """Every request of a push, as it is before it is packed."""
    requests: list[bytes] = []
    remote = here.remote()
    send = remote._sent

    def sniff(request: Any) -> Any:
        requests.append(_sniffed(request))
        return send(request)

    remote._sent = sniff  # type: ignore[method-assign]
    Push(here.context, here.home, here.setting, remote).run()
    remote.close()
    return requests


def _sniffed(request: Any) -> bytes:
    body = request.content
    if request.headers.get("content-encoding") == "zstd":
        body = zstandard.decompress(body)
    return str(request.url).encode() + b"\n" + body


@SQLITE
def test_a_session_that_is_opened_to_others_comes_with_all_it_said_before(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("said in private", private=True)
    fork = here.plane.client.call("fork", session=id).id
    here.say(fork, "and on")
    here.push()
    assert keys_of(here.store.database, [id]).keys() == {id}
    assert not keys_of(running.authenticator.store.database, [id, fork])
    here.plane.client.call("privacy", session=fork, private=False)
    here.push()
    server = running.authenticator.store
    assert texts(server, fork) == ["said in private", "and on"], "its parent is not for everybody, what it shares is"
    assert server.session(fork).parent is None
    assert not keys_of(server.database, [id])
    here.plane.client.call("privacy", session=id, private=False)
    here.push()
    assert texts(server, id) == ["said in private"]
    sound(server)


@SQLITE
def test_a_session_stands_elsewhere_on_the_server_and_takes_what_comes(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("one")
    here.push()
    call(running.owner, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": "two"}]})
    call(running.owner, "close", {"session": id})
    here.plane.client.call("pause", session=id)
    here.plane.client.call("resume", session=id)
    here.say(id, "three")
    assert not here.push().refused
    call(running.owner, "pause", {"session": id})
    here.say(id, "four")
    here.plane.client.call("pause", session=id, reason="lunch")
    assert not here.push().refused
    server = running.authenticator.store
    assert texts(server, id) == ["one", "two", "three", "four"]
    assert server.head(server.session(id)).state == "paused"
    call(running.owner, "close", {"session": id})
    call(running.owner, "archive", {"session": id})
    other = here.open("beside it")
    here.plane.client.call("resume", session=id)
    here.say(id, "five")
    refused = here.push().refused
    assert refused.keys() == {id}
    assert "archived" in refused[id]
    assert texts(server, other) == ["beside it"], "one that is refused keeps nobody else out"
    assert here.setting.refused.keys() == {id}
    sound(server)


@SQLITE
def test_a_writer_changes_neither_privacy_nor_budget_of_what_is_not_theirs(running: Running, machine: Start) -> None:
    here: Machine = machine()
    server = running.authenticator.store
    owned = call(running.owner, "open", {"project": PROJECT, "title": "the owner's"})
    here.pull(owned.id)
    here.store.append(here.store.session(owned.id), [Draft(body=BudgetSet(budget=Budget(tokens=1)))], actor="person:me")
    here.plane.client.call("privacy", session=owned.id, private=True)
    here.say(owned.id, "hello")
    here.ask(owned.id)
    assert not here.push().refused
    head = server.head(server.session(owned.id))
    assert (head.budget_tokens, server.session(owned.id).private, texts(server, owned.id)) == (None, False, ["hello"])
    mine = here.open("mine", budget_tokens=50)
    here.push()
    assert server.head(server.session(mine)).budget_tokens == 50


@SQLITE
def test_an_erasure_is_passed_on_and_a_refused_one_is_told_and_tried_again(running: Running, machine: Start) -> None:
    here: Machine = machine()
    gone, held, never = here.open("forget me"), here.open("hold me"), here.open("never sent", private=True)
    here.push()
    call(running.owner, "retention_set", {"project": PROJECT, "hold": True})
    for id in (gone, held, never):
        here.plane.client.call("erase", session=id)
    refused = here.push().refused
    assert refused.keys() == {gone, held}
    assert "legal hold" in refused[gone]
    call(running.owner, "retention_remove", {"project": PROJECT})
    done = here.push()
    assert (done.erased, done.refused) == (2, {})
    server = running.authenticator.store
    assert [server.head(server.session(id)).state for id in (gone, held)] == ["erased", "erased"]
    assert not keys_of(server.database, [never])
    sound(server, here.store)


@SQLITE
def test_days_without_a_server_cost_nothing(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("before")
    here.push()
    running.stop()
    here.say(id, "meanwhile")
    late = here.open("later")
    with pytest.raises(Unavailable, match="cannot reach the clew server"):
        here.push()
    running.start()
    here.push()
    server = running.authenticator.store
    assert (texts(server, id), texts(server, late)) == (["before", "meanwhile"], ["later"])


@SQLITE
def test_a_server_that_was_set_back_gets_again_what_it_lost(
    running: Running, machine: Start, store_url: str, tmp_path: Path
) -> None:
    here: Machine = machine()
    id = here.open("one")
    here.push()
    files, copy = Path(store_url.removeprefix("sqlite:///")), tmp_path / "backup"
    running.stop()
    copy.mkdir()
    for file in files.parent.glob("clew.db*"):
        shutil.copy(file, copy)
    running.start()
    here.say(id, "two")
    new = here.open("three")
    here.push()
    running.stop()
    for file in files.parent.glob("clew.db*"):
        file.unlink()
    for file in copy.iterdir():
        shutil.copy(file, files.parent)
    running.start()
    here.push()
    server = running.authenticator.store
    assert (texts(server, id), texts(server, new)) == (["one", "two"], ["three"])
    sound(server)


@SQLITE
def test_a_key_that_is_not_good_sends_nothing_and_loses_nothing(
    running: Running, machine: Start, tmp_path: Path
) -> None:
    here: Machine = machine()
    id = here.open("hello")
    good = (here.home / "keys" / "team").read_text()
    (here.home / "keys" / "team").write_text(good.replace(good[14:24], "0" * 10))
    with pytest.raises(Unauthenticated):
        here.push()
    (here.home / "keys" / "team").write_text(good)
    assert here.push().events == 1
    assert texts(running.authenticator.store, id) == ["hello"]
    reader: Machine = machine("bob", grants=[viewer("person:bob", project=PROJECT)])
    refused = reader.open("not allowed")
    assert "no grant gives person:bob the right to append" in reader.push().refused[refused]
    assert not keys_of(running.authenticator.store.database, [refused])


# Other people's -------------------------------------------------------------------------------------------------------


def refusal(context: Context, name: str, **arguments: Any) -> dict[str, Any]:
    with pytest.raises(ClewError) as caught:
        call(context, name, arguments)
    return caught.value.to_dict()


def test_nothing_of_others_is_opened_written_or_told_by_its_id(running: Running, machine: Start) -> None:
    ada: Machine = machine("ada")
    running.key("person:eve", writer("person:eve", project="eves"))
    id = ada.open("secret plans", private=True)
    shot = objects.save(ada.store, images(1)[0])
    ada.plane.client.call(
        "append",
        session=id,
        drafts=[{"kind": "message_added", "role": "user", "parts": [{"type": "image", "blob": shot}]}],
    )
    ada.ask(id)
    ada.push()
    context = running.authenticator.principal_context("person:eve")
    own = call(context, "sync_open", {"session": new_id(), "project": "eves"}).id
    taken = refusal(context, "sync_open", session=id, project="eves")
    assert taken["error"] == "denied"
    assert taken["message"].replace(id, "ID") == refusal(context, "sync_open", session=own, project=PROJECT)[
        "message"
    ].replace(f"on {PROJECT}", "on ID")
    assert call(context, "sync_standing", {"sessions": [id, own]}).sessions == {own: 1}
    nowhere = new_id()
    for name in ("sync_append", "sync_part", "sync_original", "sync_send", "originals"):
        assert str(refusal(context, name, session=id)).replace(id, "ID") == str(
            refusal(context, name, session=nowhere)
        ).replace(nowhere, "ID")
    # Knowing the name of bytes is not having them.
    naming = {
        "kind": "message_added",
        "source": "x",
        "body": f'{{"role":"user","parts":[{{"type":"image","blob":"{shot}"}}]}}',
    }
    assert "was not sent with it" in refusal(context, "sync_append", session=own, events=[naming])["message"]
    assert refusal(context, "blob", session=own, digest=shot)["error"] == "not_found"
    part = call(
        running.authenticator.principal_context("person:ada"), "sync_part", {"session": id, "data": b"ada's"}
    ).part
    for parts in ([part], [shot]):
        large = {"kind": "message_added", "source": "y", "parts": parts}
        assert refusal(context, "sync_append", session=own, events=[large])["error"] == "not_found"


@SQLITE
def test_what_only_a_store_itself_may_say_is_mentioned_and_does_nothing(running: Running, machine: Start) -> None:
    context = running.authenticator.principal_context(_writer(running))
    id = call(context, "sync_open", {"session": new_id(), "project": PROJECT}).id
    kinds = {
        "session_erased": '{"events":1}', "lease_taken": '{"holder":"eve","epoch":9}',
        "bodies_pruned": '{"ranges":[[1,9]]}', "operation_called": '{"operation":"erase"}', "session_opened": "{}",
        "fact_learned": "[]",
    }  # fmt: skip
    events = [{"kind": kind, "source": kind, "body": body} for kind, body in kinds.items()]
    call(context, "sync_append", {"session": id, "events": events})
    server = running.authenticator.store
    assert [event.kind for event in server.read(server.session(id))][1:] == [f"clew.{kind}" for kind in kinds]
    head = server.head(server.session(id))
    assert (head.state, head.epoch) == ("active", 0)
    sound(server)


def _writer(running: Running) -> str:
    running.key("person:ada", writer("person:ada", project=PROJECT))
    return "person:ada"


def test_every_operation_of_sync_repeats_safely() -> None:
    """Remote sends these without an Idempotency-Key, because a PUT may come twice."""
    repeatable = {one.name: one.route.split()[0] for one in load().values() if one.repeatable and one.route}
    assert {name for name in load() if name.startswith("sync_")} <= repeatable.keys()
    # A witness countersigns the same checkpoint twice alike.
    # A thing that is removed twice is gone.
    allowed = {"audit_witness", "audit_countersign", "view_remove"}
    assert {name for name, method in repeatable.items() if method not in ("GET", "PUT")} == allowed


@SQLITE
def test_messages_of_a_body_are_kept_to_the_letter(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open()
    odd = MessageAdded(role="user", text="\u2028\x00 é 🧵 \\u0041 </script> 1e400")
    here.store.append(here.store.session(id), [Draft(body=odd)], actor="person:me")
    here.plane.client.call(
        "append", session=id, drafts=[b'{"kind":"call_made","call":"1","tool":"t","input":{"n":1.50, "n":2e3}}']
    )
    here.push()
    server = running.authenticator.store
    found = [event.body for event in server.read(server.session(id))][1:]
    assert found == [event.body for event in here.store.read(here.store.session(id))][1:]
    assert bytes(found[1].input) == b'{"n":1.50, "n":2e3}'  # type: ignore[union-attr]


# The operations -------------------------------------------------------------------------------------------------------


@SQLITE
def test_pushing_and_pulling_are_ruled_on_and_recorded(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("a", "b")
    [pushed] = here.plane.push()
    assert (pushed.remote, pushed.sessions, pushed.events) == ("team", 1, 2)
    assert here.plane.pull(id).head == here.store.head(here.store.session(id)).head
    log = [(entry.operation, entry.allowed) for entry in call(here.context, "audit_log", {}).entries]
    assert ("push", True) in log
    assert ("pull", True) in log
    reader = Grant(principal="person:eve", rights=frozenset({Right.READ, Right.SEE}), project=PROJECT)
    eve = msgspec.structs.replace(here.context, principal="person:eve", grants=(reader,), _cache={})
    for operation, arguments in (("push", {}), ("push", {"sessions": [id]}), ("pull", {"session": id})):
        with pytest.raises(Denied, match=f"refused in project {PROJECT}"):
            call(eve, operation, arguments)
    refused = [entry.operation for entry in call(here.context, "audit_log", {}).entries if not entry.allowed]
    assert refused.count("push") == 2
    assert refused.count("pull") == 1


@SQLITE
def test_a_process_that_opens_no_servers_neither_pushes_nor_pulls(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("a")
    alone = msgspec.structs.replace(here.context, open_server=None)
    for operation, arguments in (("push", {}), ("pull", {"session": id})):
        with pytest.raises(Unavailable, match="cannot open other servers"):
            call(alone, operation, arguments)


@pytest.mark.parametrize("database", ["sqlite"])
def test_a_machine_pushes_by_the_old_name_of_a_project_that_the_server_renamed(
    running: Running, machine: Start
) -> None:
    here: Machine = machine()
    first = here.open("one")
    here.push()
    owner = running.authenticator.owner_context()
    call(owner, "project_rename", {"project": PROJECT, "name": "store"})
    second = here.open("two")
    fork = here.plane.client.call("fork", session=first).id
    here.say(fork, "three")
    assert here.push().refused == {}
    server = running.authenticator.store
    assert {server.session(id).project for id in (first, second, fork)} == {"store"}
    assert server.session(fork).parent == first
    here.plane.client.call("project_rename", project=PROJECT, name="market")
    here.say(first, "four")
    third = here.open("five", project="market")
    pushed = here.push()
    assert pushed.events > 0
    assert third in pushed.refused, "the server knows no project of that name, and nobody may open one there"
