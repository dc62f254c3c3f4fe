"""Somebody who can write to the database, knows how everything in it is made, and does not have the key.

A deed changes a database behind the log's back and says where it must be found: words of which one has to be in the
place that a problem names.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import apsw

from clew.model import chain
from clew.model.checkpoint import Checkpoint
from clew.model.merkle import Edge, leaf_hash
from clew.service.audit.signing import SigningKey

Row = tuple[Any, ...]
Places = tuple[str, ...]
Deed = Callable[["Vandal"], Places]

# What the chain covers of an event that still has what it was made of, and what is left of it after an erasure.
EVENT = ("seq", "kind", "version", "at", "said_at", "actor", "source", "digest", "body", "session", "project")
ERASED = ("seq", "kind", "digest", "seal", "session", "project")
SESSION = ("id", "project", "parent", "upto", "opened_at", "control", "title", "agent", "owner", "private")
HEAD = ("head", "digest", "state", "epoch", "project", "session")
SPENT = ("spent_tokens", "spent_cost_micros")
NOT_ERASED = "s.key NOT IN (SELECT session FROM head WHERE state = 'erased')"
STATES = ("opened", "active", "paused", "closed", "archived", "erased")
OTHER_KEY = SigningKey("clew/test", bytes(32))


class Vandal:
    def __init__(self, db: apsw.Connection, chance: Random, older: list[apsw.Connection]) -> None:
        self.db = db
        self.chance = chance
        self.older = older
        """The same database as it was at each checkpoint but the last."""
        self.reached = json.loads(self.rows("SELECT statement FROM leaf ORDER BY number DESC LIMIT 1")[0][0])[2]

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return list(self.db.execute(sql, values))

    def pick(self, sql: str, *values: Any) -> Row:
        return self.chance.choice(self.rows(sql, *values))

    def event(self, condition: str = "TRUE") -> Row:
        """The position, key, seq, id of session, and kind of an event that a checkpoint covers."""
        return self.pick(
            f"SELECT e.position, e.session, e.seq, s.id, e.kind FROM event e JOIN session s ON s.key = e.session "
            f"WHERE e.position <= ? AND {condition} ORDER BY e.position",
            self.reached,
        )

    def other(self, value: Any) -> Any:
        """Another value of the same sort; now and then one of a sort that does not belong there."""
        if self.chance.random() < 0.1:
            return self.chance.choice([b"\xff\xfe", "\u2028", -1, 1.5])
        match value:
            case None:
                return self.chance.choice([1, "forged"])
            case bool() | int():
                return value + self.chance.choice([-1, 1, 7, 10**6])
            case bytes():
                bit = self.chance.randrange(len(value) * 8)
                return bytes(byte ^ (1 << bit % 8 if i == bit // 8 else 0) for i, byte in enumerate(value))
            case _:
                at = self.chance.randrange(len(value) + 1)
                return value[:at] + self.chance.choice("xyz0") + value[at:]

    def children(self, key: int) -> list[Row]:
        return self.rows("SELECT key, upto FROM session WHERE parent = ?", key)

    def family(self, key: int) -> Places:
        """The ids of a session and of those that continue its chain."""
        found: Places = tuple(row[0] for row in self.rows("SELECT id FROM session WHERE key = ?", key))
        for child, _ in self.children(key):
            found += self.family(child)
        return found

    def link_again(self, key: int) -> None:
        """Make every digest of a session and of its forks follow from what is stored now."""
        [(id, parent, upto)] = self.rows("SELECT id, parent, upto FROM session WHERE key = ?", key)
        start = self.rows("SELECT digest FROM event WHERE session = ? AND seq = ?", parent, upto)
        previous = start[0][0] if start else chain.GENESIS
        seq = upto
        for row in self.rows(
            "SELECT position, seq, kind, version, at, said_at, actor, source, body, seal, blob, digest FROM event "
            "WHERE session = ? ORDER BY seq",
            key,
        ):
            position, seq, *header, body, seal, blob, digest = row
            if blob is not None:
                break  # Its body lies elsewhere; what comes after it was linked to it already.
            hashes = (
                seal
                if body is None
                else chain.header_hash(id, seq, *header) + chain.body_hash(body.encode())
            )  # fmt: skip
            digest = chain.link(previous, hashes[:32], hashes[32:])
            self.db.execute("UPDATE event SET digest = ? WHERE position = ?", (digest, position))
            previous = digest
        self.db.execute(
            "UPDATE head SET (head, digest) = (SELECT seq, digest FROM event e WHERE e.session = head.session "
            "ORDER BY seq DESC LIMIT 1) WHERE session = ?",
            (key,),
        )
        for child, _ in self.children(key):
            self.link_again(child)

    def grow_again(self) -> None:
        """Make every leaf state what is stored now, and the tree follow from that."""
        edge = Edge()
        for number, statement in self.rows("SELECT number, statement FROM leaf ORDER BY number"):
            fields = json.loads(statement)
            if fields[0] == "head":
                found = self.rows(
                    "SELECT e.digest FROM event e JOIN session s ON s.key = e.session WHERE s.id = ? AND e.seq = ?",
                    fields[1], fields[5],
                )  # fmt: skip
                fields[6] = found[0][0].hex() if found else fields[6]
            text = json.dumps(fields, separators=(",", ":"))
            values = (text, edge.add(leaf_hash(text.encode())), number)
            self.db.execute("UPDATE leaf SET statement = ?, hashes = ? WHERE number = ?", values)

    def sign_again(self, key: SigningKey) -> None:
        """Sign every checkpoint of the tree as it is now."""
        sizes = {size: number for number, size in self.rows("SELECT number, size FROM checkpoint")}
        edge = Edge()
        for (statement,) in self.rows("SELECT statement FROM leaf ORDER BY number"):
            edge.add(leaf_hash(statement.encode()))
            if edge.size in sizes:
                note = key.sign(str(Checkpoint(key.origin, edge.size, edge.root())))
                values = (note, key.key, sizes[edge.size])
                self.db.execute("UPDATE checkpoint SET note = ?, signer = ? WHERE number = ?", values)


# Events ---------------------------------------------------------------------------------------------------------------


def change_an_event(vandal: Vandal) -> Places:
    position, key, _, id, kind = vandal.event()
    column = vandal.chance.choice(ERASED if kind == "erased" else EVENT)
    [(value, seal)] = vandal.rows(f"SELECT {column}, seal FROM event WHERE position = ?", position)
    if column == "body" and value is None:
        column, value = ("seal", seal) if seal is not None else ("blob", b"\1" * 32)
    new = vandal.other(value)
    vandal.db.execute(f"UPDATE event SET {column} = ? WHERE position = ?", (new, position))
    return (*vandal.family(key), id, "session key")


def change_an_event_and_link_again(vandal: Vandal) -> Places:
    position, key, _, id, _ = vandal.event("e.body IS NOT NULL AND e.kind <> 'bodies_pruned'")
    column, new = vandal.chance.choice([
        ("body", '{"role":"user","text":"forged"}'), ("actor", "person:mallory"), ("at", 1), ("source", "forged"),
        ("said_at", 5),
    ])  # fmt: skip
    vandal.db.execute(f"UPDATE event SET {column} = ? WHERE position = ?", (new, position))
    vandal.link_again(key)
    return (id, *vandal.family(key))


def rewrite_the_tree_too(vandal: Vandal) -> Places:
    # A body in a blob cannot be linked again: then the chain itself is broken.
    places = change_an_event_and_link_again(vandal)
    vandal.grow_again()
    return ("checkpoint", *places)


def rewrite_all_with_another_key(vandal: Vandal) -> Places:
    change_an_event_and_link_again(vandal)
    vandal.grow_again()
    vandal.sign_again(OTHER_KEY)
    return ("checkpoint",)


def delete_an_event(vandal: Vandal) -> Places:
    position, key, _, id, _ = vandal.event()
    vandal.db.execute("DELETE FROM event WHERE position = ?", (position,))
    return (id, *vandal.family(key))


def delete_an_event_and_close_the_gap(vandal: Vandal) -> Places:
    position, key, seq, id, _ = vandal.event("e.seq > s.upto + 1 AND e.blob IS NULL AND e.seal IS NULL")
    vandal.db.execute("DELETE FROM event WHERE position = ?", (position,))
    for later, at in vandal.rows(
        "SELECT position, seq FROM event WHERE session = ? AND seq > ? ORDER BY seq", key, seq
    ):
        vandal.db.execute("UPDATE event SET seq = ? WHERE position = ?", (at - 1, later))
    vandal.link_again(key)
    return (id, *vandal.family(key))


def insert_an_event(vandal: Vandal) -> Places:
    position, key, seq, id, _ = vandal.event("e.kind <> 'erased'")
    for later, at in vandal.rows(
        "SELECT position, seq FROM event WHERE session = ? AND seq >= ? ORDER BY seq DESC", key, seq
    ):
        vandal.db.execute("UPDATE event SET seq = ? WHERE position = ?", (at + 1, later))
    vandal.db.execute(
        "INSERT INTO event (project, session, seq, kind, version, at, actor, digest, body) "
        'SELECT project, session, ?, \'message_added\', 1, at, actor, digest, \'{"role":"user","text":"no"}\' '
        "FROM event WHERE position = ?",
        (seq, position),
    )
    if vandal.chance.random() < 0.7:
        vandal.link_again(key)
    return (id, *vandal.family(key))


def swap_two_events(vandal: Vandal) -> Places:
    one, key, seq, id, _ = vandal.event()
    other, their_key, their_seq, their_id, _ = vandal.event(f"e.position <> {one}")
    what = vandal.chance.choice(["place", "content"])
    if what == "place":
        vandal.db.execute("UPDATE event SET seq = -1 WHERE position = ?", (one,))
        vandal.db.execute("UPDATE event SET session = ?, seq = ? WHERE position = ?", (key, seq, other))
        vandal.db.execute("UPDATE event SET session = ?, seq = ? WHERE position = ?", (their_key, their_seq, one))
    else:
        columns = "kind, version, at, said_at, actor, digest, body, blob, seal"
        [first] = vandal.rows(f"SELECT {columns} FROM event WHERE position = ?", one)
        [second] = vandal.rows(f"SELECT {columns} FROM event WHERE position = ?", other)
        for values, position in ((second, one), (first, other)):
            marks = ", ".join("?" * len(values))
            vandal.db.execute(f"UPDATE event SET ({columns}) = ({marks}) WHERE position = ?", (*values, position))
    if vandal.chance.random() < 0.3:
        for one_of_them in {key, their_key}:
            vandal.link_again(one_of_them)
    return (id, their_id, *vandal.family(key), *vandal.family(their_key))


def cut_off_the_end_of_a_session(vandal: Vandal) -> Places:
    _, key, seq, id, _ = vandal.event("e.seq > s.upto + 1")
    vandal.db.execute("DELETE FROM event WHERE session = ? AND seq >= ?", (key, seq))
    if vandal.chance.random() < 0.8:
        vandal.link_again(key)
    return (id, *vandal.family(key))


def forge_a_removal(vandal: Vandal) -> Places:
    position, _, seq, id, kind = vandal.event("e.body IS NOT NULL AND e.kind NOT IN ('session_erased')")
    [(version, at, said_at, actor, source, body)] = vandal.rows(
        "SELECT version, at, said_at, actor, source, body FROM event WHERE position = ?", position
    )
    seal = chain.header_hash(id, seq, kind, version, at, said_at, actor, source) + chain.body_hash(body.encode())
    if vandal.chance.random() < 0.5:
        vandal.db.execute("UPDATE event SET body = NULL, seal = ? WHERE position = ?", (seal, position))
    else:
        vandal.db.execute(
            "UPDATE event SET body = NULL, seal = ?, kind = 'erased', actor = '', source = NULL, said_at = NULL "
            "WHERE position = ?",
            (seal, position),
        )
    return (id,)


def insert_a_session_of_long_ago(vandal: Vandal) -> Places:
    position, key, *_ = vandal.event("e.kind = 'session_opened'")
    id = "zzzz0000zzzz0000zzzz"
    vandal.db.execute(
        "INSERT INTO session (key, project, id, agent, title, metadata, parent, upto, opened_at, control) "
        "SELECT 999, project, ?, agent, title, metadata, parent, upto, opened_at, 0 FROM session WHERE key = ?",
        (id, key),
    )
    vandal.db.execute("INSERT INTO head SELECT project, 999, 'opened', 1, digest, at, 0, NULL, 0, NULL, NULL, 0, 0 "
                      "FROM head WHERE session = ?", (key,))  # fmt: skip
    vandal.db.execute(
        "INSERT INTO event (position, project, session, seq, kind, version, at, actor, digest, body) "
        "SELECT ?, project, 999, 1, kind, version, at, actor, digest, body FROM event WHERE position = ?",
        (-vandal.chance.randrange(1, 99), position),
    )
    vandal.link_again(999)
    return (id,)


def insert_events_of_no_session(vandal: Vandal) -> Places:
    position, *_ = vandal.event()
    vandal.db.execute(
        "INSERT INTO event (project, session, seq, kind, version, at, actor, digest, body) "
        "SELECT project, 4711, seq, kind, version, at, actor, digest, body FROM event WHERE position = ?",
        (position,),
    )
    return ("session key 4711",)


# Sessions -------------------------------------------------------------------------------------------------------------


def drop_a_session(vandal: Vandal) -> Places:
    _, key, _, id, _ = vandal.event()
    names = vandal.family(key)
    tables = vandal.chance.choice([("event", "head"), ("event",), ("head",), ()])
    for table in tables:
        vandal.db.execute(f"DELETE FROM {table} WHERE session = ?", (key,))
    if vandal.chance.random() < 0.8 or not tables:
        vandal.db.execute("DELETE FROM session WHERE key = ?", (key,))
    return (id, *names, "session key")


def drop_a_session_and_its_leaves(vandal: Vandal) -> Places:
    _, key, _, id, _ = vandal.event()
    for sql in ("DELETE FROM event WHERE session = ?", "DELETE FROM head WHERE session = ?"):
        vandal.db.execute(sql, (key,))
    vandal.db.execute("DELETE FROM session WHERE key = ?", (key,))
    vandal.db.execute("DELETE FROM leaf WHERE session = ?", (id,))
    if vandal.chance.random() < 0.7:
        for number, (old,) in enumerate(vandal.rows("SELECT number FROM leaf ORDER BY number")):
            vandal.db.execute("UPDATE leaf SET number = ? WHERE number = ?", (number, old))
        vandal.grow_again()
    return ("leaf", "checkpoint", *vandal.family(key))


def change_a_session(vandal: Vandal) -> Places:
    _, key, _, id, _ = vandal.event(NOT_ERASED)
    names = vandal.family(key)
    column = vandal.chance.choice(SESSION)
    [(value,)] = vandal.rows(f"SELECT {column} FROM session WHERE key = ?", key)
    new = 1 - value if column == "control" else vandal.other(value)
    if column == "parent" and value is None:
        new = vandal.pick("SELECT key FROM session WHERE key <> ?", key)[0]
    vandal.db.execute(f"UPDATE session SET {column} = ? WHERE key = ?", (new, key))
    return (id, *names, str(new), "session key")


def change_a_head(vandal: Vandal) -> Places:
    _, key, _, id, _ = vandal.event(NOT_ERASED)
    # What was spent is known from bodies, so nobody can tell once one of those is gone.
    has_all = not vandal.rows("SELECT 1 FROM event WHERE session = ? AND seal IS NOT NULL", key)
    column = vandal.chance.choice(HEAD + SPENT if has_all else HEAD)
    [(value,)] = vandal.rows(f"SELECT {column} FROM head WHERE session = ?", key)
    new = vandal.chance.choice([one for one in STATES if one != value]) if column == "state" else vandal.other(value)
    vandal.db.execute(f"UPDATE head SET {column} = ? WHERE session = ?", (new, key))
    return (id, *vandal.family(key))


def rename_a_project(vandal: Vandal) -> Places:
    key, name = vandal.pick("SELECT key, name FROM project")
    vandal.db.execute("UPDATE project SET name = ? WHERE key = ?", (name + "s", key))
    return tuple(row[0] for row in vandal.rows("SELECT id FROM session WHERE project = ?", key))


# The tree -------------------------------------------------------------------------------------------------------------


def change_a_leaf(vandal: Vandal) -> Places:
    [number] = vandal.pick("SELECT number FROM leaf")
    column = vandal.chance.choice(["number", "session", "statement", "hashes"])
    [(value,)] = vandal.rows(f"SELECT {column} FROM leaf WHERE number = ?", number)
    new = vandal.chance.choice([-3, 999]) if column == "number" else vandal.other(value)
    vandal.db.execute(f"UPDATE leaf SET {column} = ? WHERE number = ?", (new, number))
    if column != "number" and vandal.chance.random() < 0.3 and column != "hashes":
        edge = Edge()
        for at, statement in vandal.rows("SELECT number, CAST(statement AS BLOB) FROM leaf ORDER BY number"):
            vandal.db.execute("UPDATE leaf SET hashes = ? WHERE number = ?", (edge.add(leaf_hash(statement)), at))
    return ("leaf", "checkpoint", "the audit tree")


def delete_leaves(vandal: Vandal) -> Places:
    [number] = vandal.pick("SELECT number FROM leaf")
    vandal.db.execute(f"DELETE FROM leaf WHERE number {vandal.chance.choice(['=', '>='])} ?", (number,))
    return ("leaf", "checkpoint")


def swap_two_leaves(vandal: Vandal) -> Places:
    one, other = vandal.chance.sample([row[0] for row in vandal.rows("SELECT number FROM leaf")], 2)
    [first], [second] = (vandal.rows("SELECT session, statement FROM leaf WHERE number = ?", n) for n in (one, other))
    for values, number in ((first, other), (second, one)):
        vandal.db.execute("UPDATE leaf SET session = ?, statement = ? WHERE number = ?", (*values, number))
    if vandal.chance.random() < 0.5:
        vandal.grow_again()
    return ("leaf", "checkpoint")


def insert_a_leaf(vandal: Vandal) -> Places:
    [(count,)] = vandal.rows("SELECT count(*) FROM leaf")
    at = vandal.chance.choice([-1, vandal.chance.randrange(count), count])
    for (number,) in vandal.rows("SELECT number FROM leaf WHERE number >= ? ORDER BY number DESC", at):
        if at >= 0:
            vandal.db.execute("UPDATE leaf SET number = ? WHERE number = ?", (number + 1, number))
    values = vandal.pick("SELECT session, statement, hashes FROM leaf")
    vandal.db.execute("INSERT INTO leaf VALUES (?, ?, ?, ?)", (at, *values))
    return ("leaf", "checkpoint")


def change_a_checkpoint(vandal: Vandal) -> Places:
    [number] = vandal.pick("SELECT number FROM checkpoint")
    column = vandal.chance.choice(["number", "size", "note", "signer"])
    [(value,)] = vandal.rows(f"SELECT {column} FROM checkpoint WHERE number = ?", number)
    new = vandal.chance.choice([-3, 0, 999]) if column == "number" else vandal.other(value)
    if column == "signer" and vandal.chance.random() < 0.5:
        new = OTHER_KEY.key
    vandal.db.execute(f"UPDATE checkpoint SET {column} = ? WHERE number = ?", (new, number))
    return ("checkpoint", "leaf", "the audit tree")


def delete_checkpoints(vandal: Vandal) -> Places:
    [number] = vandal.pick("SELECT number FROM checkpoint")
    vandal.db.execute(f"DELETE FROM checkpoint WHERE number {vandal.chance.choice(['=', '>=', '<='])} ?", (number,))
    if vandal.chance.random() < 0.5:
        vandal.db.execute("DELETE FROM leaf WHERE number >= (SELECT coalesce(max(size), 0) FROM checkpoint)")
    return ("checkpoint", "leaf")


def swap_two_checkpoints(vandal: Vandal) -> Places:
    one, other = vandal.chance.sample(vandal.rows("SELECT number, size, note FROM checkpoint"), 2)
    vandal.db.execute("UPDATE checkpoint SET size = -size")
    for number, _, note in ((one[0], 0, other[2]), (other[0], 0, one[2])):
        vandal.db.execute("UPDATE checkpoint SET note = ? WHERE number = ?", (note, number))
    vandal.db.execute("UPDATE checkpoint SET size = -size")
    return ("checkpoint",)


def go_back_in_time(vandal: Vandal) -> Places:
    """Put an older copy of the whole database in place: nothing in it is wrong."""
    older = vandal.chance.choice(vandal.older)
    with vandal.db.backup("main", older, "main") as backup:
        backup.step()
    return ("kept checkpoint",)


DEEDS: dict[Deed, int] = {
    change_an_event: 12, change_an_event_and_link_again: 5, rewrite_the_tree_too: 3, rewrite_all_with_another_key: 2,
    delete_an_event: 5, delete_an_event_and_close_the_gap: 3, insert_an_event: 5, swap_two_events: 6,
    cut_off_the_end_of_a_session: 4, forge_a_removal: 4, insert_a_session_of_long_ago: 1,
    insert_events_of_no_session: 1, drop_a_session: 4, drop_a_session_and_its_leaves: 2, change_a_session: 6,
    change_a_head: 5, rename_a_project: 1, change_a_leaf: 6, delete_leaves: 3, swap_two_leaves: 3, insert_a_leaf: 2,
    change_a_checkpoint: 5, delete_checkpoints: 3, swap_two_checkpoints: 2, go_back_in_time: 2,
}  # fmt: skip
