"""The tree and its checkpoints on both databases: made once, consistent with one another, provable, and verified."""

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from audit.history import KEY, PUBLIC, mark, write_history
from clew.cli.hints import hint_for
from clew.model.access import Grant, Right, owner_of_everything
from clew.model.checkpoint import checkpoint_from, leaf_from, note_from
from clew.model.errors import ClewError, Conflict, Damaged, Denied, InvalidInput, NotFound
from clew.model.merkle import is_consistent, leaf_hash, root_of
from clew.service import Context, call
from clew.service.audit import bundle, verify_bundle
from clew.service.audit.checkpoints import CheckpointInfo
from clew.service.audit.signing import key_file, read_key, write_key
from clew.service.audit.verification import Audited
from clew.service.audit.verify_log import examine
from clew.store import Store, audit_tree, open_store
from clew.store.audit_tree import Signed
from clew.store.log.feed import end_position
from clew.store.projects import control_log
from store.crowd import at_once
from store.rows import change, literal, query
from store.rows import one as this_one
from store.test_verify import seal_of
from store.words import ADA, opened, say

# For what no database has a say in.
embedded = pytest.mark.parametrize("database", ["sqlite"])


@pytest.fixture
def context(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.delenv("CLEW_AUDIT_KEY", raising=False)
    return Context(
        store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),), home=str(tmp_path / "home")
    )


def bundled(store: Store, *, content: bool = False) -> list[bytes]:
    """A bundle's lines."""
    text, after = bundle.portion(store, "", content=content)
    while after:
        more, after = bundle.portion(store, after, content=content)
        text += more
    return text.encode().splitlines(keepends=True)


def counts(found: Audited) -> tuple[int, ...]:
    return found.sessions, found.events, found.removed, found.leaves, found.checkpoints, found.beyond


# Making ---------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_states_each_session_that_has_something_new(store: Store) -> None:
    assert mark(store) is None
    mine, other = opened(store), opened(store)
    control = control_log(store, "demo", ADA)
    first, end = mark(store), end_position(store)
    assert first is not None
    store.append(mine, [say(), say()])
    second = mark(store)
    assert second is not None
    assert mark(store) is None
    leaves = [leaf_from(row[0]) for row in query(store, "SELECT statement FROM leaf ORDER BY number")]
    told = [(leaf.session, leaf.seq, leaf.control) for leaf in leaves if hasattr(leaf, "session")]
    assert told == [(mine.id, 1, False), (other.id, 1, False), (control.id, 1, True), (mine.id, 3, False)]
    assert leaves[4].digest == store.head(mine).digest.hex()
    assert [(leaf.number, leaf.position) for leaf in (leaves[3], leaves[5])] == [(1, end), (2, end + 2)]
    assert [(one.number, one.size) for one in (first, second)] == [(1, 4), (2, 6)]
    assert checkpoint_from(note_from(second.note).text).origin == KEY.origin


def test_processes_that_make_checkpoints_at_once_make_one_tree(store_url: str) -> None:
    stores = [open_store(store_url) for _ in range(4)]
    sessions = [opened(stores[0]) for _ in stores]

    def work(number: int) -> Callable[[], list[Signed | None]]:
        def run() -> list[Signed | None]:
            made = []
            for _ in range(8):
                stores[number].append(sessions[number], [say()])
                made.append(mark(stores[number]))
            return made

        return run

    outcomes = at_once([work(number) for number in range(4)])
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    made = [one for outcome in outcomes for one in outcome if one is not None]
    mark(stores[0])
    assert len({one.number for one in made}) == len(made) >= 8
    found = examine(stores[0], [PUBLIC], [one.note for one in made])
    assert (found.problems, found.events, found.beyond) == ([], 36, 0)
    for one in stores:
        one.close()


@embedded
def test_a_leaf_that_nobody_signed_for_stops_the_next_checkpoint(store: Store) -> None:
    session = opened(store)
    mark(store)
    change(store, "INSERT INTO leaf SELECT 2, session, statement, hashes FROM leaf WHERE number = 0")
    store.append(session, [say()])
    with pytest.raises(Damaged, match="beyond its last checkpoint") as refusal:
        mark(store)
    assert hint_for(refusal.value) == "clew audit verify"


# Proofs ---------------------------------------------------------------------------------------------------------------


def test_every_session_is_proven_in_every_checkpoint_that_has_it(store: Store) -> None:
    made = write_history(store)
    for size in [one.size for one in made]:
        stated = [
            json.loads(text)
            for (text,) in query(store, f"SELECT statement FROM leaf WHERE number < {size} ORDER BY number")
        ]
        for session in {fields[1] for fields in stated if fields[0] == "head"}:
            found = audit_tree.inclusion(store, session, size)
            assert found is not None
            root = checkpoint_from(note_from(next(one.note for one in made if one.size == size)).text).root
            assert root_of(leaf_hash(found.statement.encode()), found.number, size, found.hashes) == root
            assert json.loads(found.statement)[5] == max(fields[5] for fields in stated if fields[1] == session)


def test_every_checkpoint_is_the_beginning_of_the_later_ones(store: Store) -> None:
    made = [checkpoint_from(note_from(checkpoint.note).text) for checkpoint in write_history(store)]
    for number, old in enumerate(made):
        for new in made[number:]:
            proof = audit_tree.consistency(store, old.size, new.size)
            assert is_consistent(old.size, new.size, old.root, new.root, proof)


def test_a_proof_is_of_the_newest_checkpoint_or_of_a_named_one(context: Context) -> None:
    session = call(context, "open", {"title": "one"}).id
    with pytest.raises(NotFound, match="no checkpoint yet"):
        call(context, "audit_proof", {"session": session})
    first = call(context, "audit_checkpoint", {})
    later = call(context, "open", {"title": "two"}).id
    call(context, "append", {"session": session, "drafts": [{"kind": "message_added", "role": "user"}]})
    second = call(context, "audit_checkpoint", {})
    proof = call(context, "audit_proof", {"session": session, "since": 1})
    assert (proof.seq, proof.checkpoint, proof.since) == (2, second.note, first.note)
    old, new = (checkpoint_from(note_from(note).text) for note in (first.note, second.note))
    hashes = [b64decode(text) for text in proof.hashes]
    assert root_of(leaf_hash(proof.statement.encode()), proof.index, new.size, hashes) == new.root
    assert is_consistent(old.size, new.size, old.root, new.root, [b64decode(text) for text in proof.consistency])
    assert call(context, "audit_proof", {"session": session, "checkpoint": 1}).seq == 1
    with pytest.raises(NotFound, match="not in checkpoint 1"):
        call(context, "audit_proof", {"session": later, "checkpoint": 1})
    with pytest.raises(NotFound, match="no checkpoint 9"):
        call(context, "audit_proof", {"session": session, "checkpoint": 9})
    with pytest.raises(InvalidInput, match="older"):
        call(context, "audit_proof", {"session": session, "checkpoint": 1, "since": 2})


# Verification ---------------------------------------------------------------------------------------------------------


def test_a_log_with_erased_and_pruned_sessions_verifies_as_a_store_and_as_a_bundle(store: Store) -> None:
    made = write_history(store)
    notes = [one.note for one in made]
    for found in (
        examine(store, [PUBLIC], notes),
        verify_bundle.examine(bundled(store), [PUBLIC], notes),
        verify_bundle.examine(bundled(store, content=True), [PUBLIC], notes),
    ):
        assert (found.problems, found.notes) == ([], [])
        assert counts(found) == (8, 32, 5, 18, 4, 1)


@embedded
def test_a_bundle_without_content_holds_none(store: Store) -> None:
    session = opened(store, title="canary-title", agent="canary-agent", metadata='{"canary": 1}')
    store.append(session, [say("canary-text")], actor=ADA)
    mark(store)
    assert b"canary" not in b"".join(bundled(store))
    assert b"canary-text" in b"".join(bundled(store, content=True))


@embedded
def test_what_was_not_given_is_said(store: Store) -> None:
    assert [note[:27] for note in examine(store, [], []).notes] == [
        "there is no checkpoint yet,",
        "a log whose end was removed",
    ]
    opened(store)
    mark(store)
    for found in (examine(store, [], []), verify_bundle.examine(bundled(store), [], [])):
        assert found.problems == []
        assert [note[:27] for note in found.notes] == ["the signatures were checked", "a log whose end was removed"]


@embedded
def test_an_older_copy_looks_whole_and_is_found_against_a_kept_checkpoint(store: Store) -> None:
    """What only a checkpoint that was kept elsewhere can show."""
    opened(store)
    mark(store)
    older = bundled(store)
    opened(store)
    newest = mark(store)
    assert newest is not None
    assert verify_bundle.examine(older, [PUBLIC], []).problems == []
    [*_, problem] = verify_bundle.examine(older, [PUBLIC], [newest.note]).problems
    assert problem.where == "kept checkpoint 1"


@embedded
def test_a_bundle_from_which_something_was_left_out_is_refused(store: Store) -> None:
    """Also what no checkpoint covers yet, and so nobody would miss."""
    opened(store)
    mark(store)
    late = opened(store)
    lines = [line for line in bundled(store) if late.id.encode() not in line]
    with pytest.raises(Damaged, match="lines when it was made"):
        verify_bundle.examine(lines, [PUBLIC], [])


@embedded
def test_a_body_that_is_gone_off_the_record_is_found_in_a_bundle(store: Store) -> None:
    session = opened(store)
    store.append(session, [say("one"), say("two")], actor=ADA)
    mark(store)
    seal = seal_of(store, session, 2)
    for deed in ("", ", kind = 'erased', actor = '', source = NULL"):
        change(store, f"UPDATE event SET body = NULL, seal = {literal(store, seal)}{deed} WHERE {this_one(session, 2)}")
        [problem] = verify_bundle.examine(bundled(store), [PUBLIC], []).problems
        assert problem.where == f"session {session.id} seq 2"
        assert "no event of the session records that" in problem.what


@embedded
def test_any_change_of_a_bundle_is_found(store: Store) -> None:
    newest = write_history(store)[-1]
    whole = bundled(store, content=True)
    chance = Random(1)
    for _ in range(150):
        lines = list(whole)
        at, other = chance.sample(range(len(lines) - 1), 2)
        match chance.choice(["change", "delete", "repeat", "swap", "cut"]):
            case "change":
                lines[at] = changed(lines[at], chance)
            case "delete":
                del lines[at]
                lines[-1] = b'{"end":{"lines":%d}}\n' % len(lines)
            case "repeat":
                lines.insert(other, lines[at])
                lines[-1] = b'{"end":{"lines":%d}}\n' % len(lines)
            case "swap":
                lines[at], lines[other] = lines[other], lines[at]
            case "cut":
                del lines[at:]
        if is_harmless(whole, lines):
            continue
        try:
            found = verify_bundle.examine(lines, [PUBLIC], [newest.note]).problems
        except ClewError as error:
            found = [error]
        assert found, [line for line in whole if line not in lines] or "order"


def changed(line: bytes, chance: Random) -> bytes:
    """A line with another value in one place."""
    [(what, fields)] = json.loads(line).items()
    # Nothing holds the order across sessions, nor the time of an event that was erased.
    uncovered = {"content", "position", *({"at", "version"} if fields.get("kind") == "erased" else ())}
    name = chance.choice(sorted(fields.keys() - uncovered))
    value = fields.get(name)
    fields[name] = value + 1 if isinstance(value, int) else f"{value}0" if value else "0"
    return json.dumps({what: fields}).encode() + b"\n"


def is_harmless(whole: list[bytes], lines: list[bytes]) -> bool:
    """Whether only the order of sessions, or something about a session that came later, is another."""
    return sorted(whole) == sorted(lines) and [line for line in whole if not line.startswith(b'{"session"')] == [
        line for line in lines if not line.startswith(b'{"session"')
    ]


# Keys and rights ------------------------------------------------------------------------------------------------------


@embedded
def test_the_first_checkpoint_makes_the_key_and_others_need_it(context: Context, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="the log is empty"):
        call(context, "audit_checkpoint", {})
    session = call(context, "open", {}).id
    made: CheckpointInfo = call(context, "audit_checkpoint", {})
    assert (made.number, made.made) == (1, True)
    again: CheckpointInfo = call(context, "audit_checkpoint", {})
    assert (again.note, again.made) == (made.note, False)
    assert call(context, "audit_key", {}).key == made.signer
    elsewhere = Context(
        store=context.store,
        unrestricted=context.store,
        principal=ADA,
        grants=context.grants,
        home=str(tmp_path / "elsewhere"),
    )
    call(context, "append", {"session": session, "drafts": [{"kind": "message_added", "role": "user"}]})
    with pytest.raises(Conflict, match="is not there"):
        call(elsewhere, "audit_checkpoint", {})
    assert not key_file(elsewhere.home).exists()
    assert call(elsewhere, "audit_key", {}).key == made.signer
    write_key(key_file(elsewhere.home), KEY)
    with pytest.raises(Conflict, match="CLEW_AUDIT_KEY"):
        call(elsewhere, "audit_checkpoint", {})


@embedded
def test_a_new_key_goes_on_with_the_same_tree(context: Context) -> None:
    call(context, "open", {})
    first = call(context, "audit_checkpoint", {})
    second = call(context, "audit_new_key", {})
    assert second.key.partition("+")[0] == first.signer.partition("+")[0]
    assert second.key != first.signer
    third = call(context, "audit_checkpoint", {})
    assert (third.number, third.signer) == (3, second.key)
    found = call(context, "audit_verify", {"checkpoints": [first.note, third.note]})
    assert found.problems == []
    alone = call(context, "audit_verify", {"keys": [second.key]})
    assert {problem.where for problem in alone.problems} == {"checkpoint 1"}


@embedded
def test_the_variable_names_the_key(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_AUDIT_KEY", str(tmp_path / "team.key"))
    call(context, "open", {})
    made = call(context, "audit_checkpoint", {})
    key = read_key(tmp_path / "team.key")
    assert key is not None
    assert key.key == made.signer


def test_checkpoints_are_listed_newest_first_in_pages(context: Context) -> None:
    for _ in range(3):
        call(context, "open", {})
        call(context, "audit_checkpoint", {})
    page = call(context, "audit_checkpoints", {"limit": 2})
    assert [checkpoint.number for checkpoint in page.checkpoints] == [3, 2]
    rest = call(context, "audit_checkpoints", {"limit": 2, "after": page.next})
    assert ([checkpoint.number for checkpoint in rest.checkpoints], rest.next) == ([1], "")
    assert rest.checkpoints[0].at < page.checkpoints[0].at


@embedded
def test_content_needs_the_right_to_read_everything(context: Context) -> None:
    call(context, "open", {})
    auditor = Grant(principal="person:eve", rights=frozenset({Right.AUDIT}))
    eve = Context(
        store=context.store, unrestricted=context.store, principal="person:eve", grants=(auditor,), home=context.home
    )
    assert call(eve, "audit_export", {}).text.startswith('{"bundle"')
    with pytest.raises(Denied):
        call(eve, "audit_export", {"with_content": True})
    ours: dict[str, Any] = {"form": "bundle", "project": "default"}
    with pytest.raises(InvalidInput, match="takes no filters"):
        call(eve, "audit_export", ours)
    local = Grant(principal="person:eve", rights=frozenset({Right.AUDIT}), project="default")
    eve = Context(
        store=context.store, unrestricted=context.store, principal="person:eve", grants=(local,), home=context.home
    )
    for name in ("audit_export", "audit_checkpoint", "audit_verify", "audit_log"):
        with pytest.raises(Denied):
            call(eve, name, {})
    assert call(eve, "audit_log", {"project": "default"}).entries == []


@embedded
@pytest.mark.parametrize("after", ["x", "1", "0.0.0.0.0", "9.9.9.9.9.x", "1.2.3.4.5.6\n"])
def test_a_place_that_no_portion_named_is_refused(context: Context, after: str) -> None:
    with pytest.raises(InvalidInput, match="is not a valid cursor"):
        call(context, "audit_export", {"after": after})
