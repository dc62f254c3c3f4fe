"""PostgreSQL reads no whole table for a search, a list or a file: checked plan by plan, at a few thousand rows."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import tuple_row

from clew.model.access import Reach
from clew.model.query import parse
from clew.service import Context, call
from clew.store import open_store
from clew.store.database.statements import conditional_statements, statements, tables
from clew.store.reach import parameters_of
from clew.views.text import PROJECT, ROLE, index_query, tag
from support.postgres import Roles, Server
from support.talks import on, opened

FAR = 2**62
# Three tables as a year of work fills them: hours, sessions, words of all kinds of rarity, and tags.
FILL = """
INSERT INTO listing (session, project, id, title, agent, person, runtime, machine, folder, state, outcome, events,
    turns, calls, errors, began_at, said_at, kept_at, last_at, private, called_by, waiting, titled, empty)
SELECT n, n % 7, 'id' || n, 'title', 'agent' || n % 20, 'person:' || n % 5, 'runtime' || n % 8, 'machine' || n % 3,
    '', (ARRAY['active', 'paused', 'closed'])[n % 3 + 1], '', 9, 3, 3, n % 2, n * 1000, n * 1000, n * 1000, n * 1000, 0,
    CASE n % 9 WHEN 0 THEN 'native' || n % 90 ELSE '' END, n % 2, 0, n % 11 / 10
FROM generate_series(1, 3000) AS n;
INSERT INTO label (project, session, kind, name, text, actor, seq, at)
SELECT n % 7, n % 3000, (ARRAY['tag', 'note', 'tag'])[n % 3 + 1], 'label' || n % 900, '', 'person:1', n, n
FROM generate_series(1, 6000) AS n ON CONFLICT DO NOTHING;
INSERT INTO touched (project, session, type, what, name, read, written, read_seq, written_seq, last_at)
SELECT n % 7, n % 3000, 'file', 'src/file' || n || '.py', 'file' || n % 900 || '.py', 1, 0, 1, 0, n
FROM generate_series(1, 6000) AS n;
INSERT INTO spending (project, session, record, message, position, seq, at, model, input, output, cache_read,
    cache_write, cache_write_hour, reasoning, cost_micros)
SELECT n % 7, n % 3000, n, n, n, n, n * 1000, 'm', 1, 1, 1, 1, 0, 0, 0 FROM generate_series(1, 6000) AS n;
INSERT INTO quarter (project, session, number, model, is_reported, input, output, cache_read, cache_write,
    cache_write_hour, reasoning, cost_micros, answers, first_at, last_at)
SELECT n % 7, n % 3000, n, 'm', 0, 1, 1, 1, 1, 0, 0, 0, 1, n, n FROM generate_series(1, 6000) AS n;
INSERT INTO speaking (project, session, runtime, calls, at)
SELECT n % 7, n, 'codex', '{}', n FROM generate_series(1, 3000) AS n;
INSERT INTO turn (project, session, seq, at) SELECT n % 7, n % 3000, n, n FROM generate_series(1, 6000) AS n;
INSERT INTO known (project, session, seq, tier, name, kind, gone, valid, scope, at, who, body)
SELECT n % 7, n % 3000, n, 'fact', n, 'fact_learned', 0, 1, 'session', n * 60, 'person:1', '{}'
FROM generate_series(1, 6000) AS n;
INSERT INTO branch (project, session, seq, parent) SELECT n % 7, n % 3000, n, n - 1 FROM generate_series(1, 6000) AS n;
INSERT INTO revised (project, session, seq, place) SELECT n % 7, n % 3000, n, n - 1 FROM generate_series(1, 6000) AS n;
INSERT INTO called (project, session, call, returned, id)
SELECT n % 7, n % 3000, n, CASE n % 5 WHEN 0 THEN 0 ELSE n + 1 END, n % 100 FROM generate_series(1, 6000) AS n;
INSERT INTO landmark (project, session, seq, type, name, at, said_at)
SELECT n % 7, n % 3000, n, (ARRAY['call', 'return', 'edit', 'error'])[n % 4 + 1], 'shell', n, n
FROM generate_series(1, 6000) AS n;
INSERT INTO committed (project, session, seq, sha, short, how, at)
SELECT n % 7, n % 3000, n, md5(n::text) || 'abcdef12', left(md5(n::text), 7),
    (ARRAY['recorded', 'printed', 'asked'])[n % 3 + 1], n
FROM generate_series(1, 6000) AS n;
"""
PASSAGES = """
INSERT INTO passage (project, id, session, seq, words, at)
SELECT n %% 7, n, n %% 3000, n,
    array_to_tsvector(ARRAY['common', 'w' || n %% 50, 'rare' || n, %s || n %% 3000, %s, %s]), n * 60
FROM generate_series(1, 6000) AS n
"""

PAGE: dict[str, Any] = {"before": FAR, "first": 0, "limit": 50}
KNOWN_PAGE: dict[str, Any] = {"at": FAR, "before": FAR, "seq": FAR, "limit": 20}
LIST: dict[str, Any] = {"before_at": FAR, "before": FAR, "limit": 50}
WORDS = [index_query("pg", parse(text)) for text in ("rare77", "common", "common w7", "rare*", "w7 -common")]
TAGGED = index_query("pg", parse("common w7"), tags=[tag(ROLE, "asked"), tag(PROJECT, 1)])
_REACH = Reach(
    me="person:1", projects=frozenset({"p"}), agents=frozenset({("p", "a"), ("", "b")}), sessions=frozenset({"s"})
)
REACH = parameters_of(_REACH, {"p": [3]}, {"s": 7})
STATUS: dict[str, Any] = {"status": "idle", "quiet_since": 5000, "unanswered_since": 900}
USAGE: dict[str, Any] = {
    "offset": 0, "span": 86_400_000_000, "by_session": 0, "by_project": 1, "by_agent": 0, "by_person": 0,
    "by_runtime": 0, "by_machine": 0,
}  # fmt: skip
TIMES: list[dict[str, Any]] = [{}, {"since": 1000}, {"until": 90_000}, {"since": 1000, "until": 90_000}]

STATEMENTS: dict[str, list[dict[str, Any]]] = {
    "hits": [
        {**PAGE, "match": words, **more}
        for words in (*WORDS, TAGGED)
        for more in (*TIMES, STATUS, {"before": 5000, "first": 4000}, {"limit": 1000}, REACH)
    ],
    "hits_count": [
        {**PAGE, "match": words, **more} for words in (*WORDS, TAGGED) for more in (*TIMES, STATUS, REACH)
    ],
    "candidates": [
        {**PAGE, "match0": words, "weight0": 1000, "match1": words, "weight1": 700, **more}
        for words in (*WORDS, TAGGED)
        for more in (*TIMES, REACH)
    ],
    "passages": [{**PAGE, **more} for more in (*TIMES, STATUS, {"before": 5000}, REACH)],
    "passage_last": [{"first": 1024, "beyond": 2048}],
    "passage_spilled": [{}],
    "sessions_page": [
        {**LIST, **more}
        for more in (
            {}, {"project": 3}, {"agent": "agent7"}, {"person": "person:1"}, {"runtime": "runtime3"},
            {"state": "active", **STATUS}, {"machine": "machine1"}, {"since": 5000}, {"until": 5000}, {"failed": 1},
            {"keys": "[1, 2, 3]"}, {"keys": "[]"}, {"project": 3, "agent": "agent7", "state": "paused", "since": 7},
            {"before_at": 5000, "before": 17}, {"limit": 10_000}, {"filled": 1}, {"quiet": 5000, "filled": 1},
            {"tag": "label7"}, {"starred": "person:1"}, REACH,
        )
    ],
    "sessions_row": [{"session": 7}],
    "sessions_rows": [{"keys": "[1, 2, 3]"}],
    "sessions_called_by": [{"native": "native9", "runtime": "runtime3", "limit": 100, **more} for more in ({}, REACH)],
    "labels_of": [{"keys": "[1, 2, 3]", "principal": "person:1"}],
    "labels_sessions": [{"kind": "tag", "name": "label7", "limit": 10_000, **more} for more in ({}, REACH)],
    "files_of": [{"session": 7}],
    "files_by_name": [
        {"name": "file7.py", "limit": 50, **more}
        for more in (
            {}, {"type": "file"}, {"project": 3}, {"limit": 100_000}, REACH,
            {"type": "file", "path": "src/file7.py", "project": 3, "least_written": 1, "limit": 1},
        )
    ],
    "paths_last": [
        {"project": 3, "what": "src/file7.py", "name": "file7.py", **more} for more in ({}, {"least_written": 1})
    ],
    "artifacts_by_name": [
        {"limit": 50, **more} for more in ({}, {"session": 7}, {"project": 3}, {"project": 3, "progress": 1}, REACH)
    ],
    "artifacts_newest": [{"limit": 50, **more} for more in ({}, {"session": 7}, {"project": 3}, REACH)],
    "points_before": [
        {"machine": "machine1", "names": '["/work", "/"]', "before": 5000, "limit": 500, **more} for more in ({}, REACH)
    ],
    "points_workers": [
        {"machine": "machine1", "folder": "/work", "below": "/work/", "beyond": "/work0", "limit": 5000, **more}
        for more in ({}, {"projects": "[3]"})
    ],
    "speaking_of": [{"session": 7}],
    "known_standing": [{"keys": "[1, 2, 3]"}],
    "known_of": [{"session": 7, "first": 1, "last": 900}],
    "known_newest": [{**KNOWN_PAGE, **more} for more in ({}, {"project": 3}, {"scope": "project"}, REACH)],
    "known_matching": [
        {**KNOWN_PAGE, "match": words, **more}
        for words in (*WORDS, TAGGED)
        for more in ({}, {"project": 3}, {"scope": "project"}, REACH)
    ],
    "called_newest_open": [{"session": 7, "id": 3}],
    "called_returned": [{"session": 7, "call": 3}],
    "branches": [{"session": 7, "first": 1, "last": 900}],
    "course_window": [{"session": 7, "first": 1, "last": 900, "end": 900}],
    "turns_last": [{"session": 7, "first": 1, "last": 900, "limit": 1}],
    "commits_found": [
        {"first": "c4ca423", "end": "c4ca423g", "limit": 50, **more}
        for more in ({}, {"session": 7}, {"project": 3}, REACH)
    ],
    "landmarks_of": [{"session": 7, "first": 1, "last": 900}],
    "landmarks_called": [{"session": 7, "first": 1, "last": 900}],
    "landmarks_returned": [{"session": 7, "first": 1, "last": 900}],
    "prompts_of": [{"session": 7, "first": 1, "last": 900}],
    "usage_by_place": [{"session": 7, "first": 1, "last": 900}],
    "sessions_names": [{"keys": "[1, 2, 3]"}],
    "usage_times": [{}],
    "usage_of": [{"keys": "[1, 2, 3]"}],
    "usage_quarters": [{"keys": "[1, 2, 3]"}],
    "usage_recorded": [{"session": 7, "keys": "[1, 2, 3]"}],
    "usage_shared": [{"session": 7}],
    "usage_within": [{**USAGE, "since": 900_000_000, "until": 910_000_000, **more} for more in ({}, {"session": 7})],
}  # fmt: skip
INDEXES = {
    "hits": "passages_with", "candidates": "passages_with", "hits_count": "ProjectSet",
    "files_by_name": "touched_name", "paths_last": "touched_name",
    "passage_spilled": "passage_spilled", "sessions_called_by": "listing_called_by", "known_matching": "passages_with",
    "labels_sessions": "label_name",
}  # fmt: skip
# Read from end to end on purpose: usage of all time, for all sessions; all paths, for a folder, a pattern or the most
# touched; how many sessions and which tags there are, and who did them; and how far each view has come.
WHOLE = {
    "usage_by", "usage_hours", "sessions_sorted", "sessions_models",
    "files_like", "files_most", "paths_most", "paths_most_written", "views", "views_lock", "words_settle",
    "sessions_by_project", "sessions_count", "sessions_summed", "labels_tags",
}  # fmt: skip


@pytest.fixture(scope="module")
def roles(postgres: Server) -> Roles:
    """Both are held back by row-level security, as on a server: it decides which conditions may use an index."""
    return postgres.two_roles()


@pytest.fixture(scope="module")
def context(roles: Roles) -> Iterator[Context]:
    context = on(open_store(roles.runtime))
    opened(context)
    call(context, "views_step", {})
    call(context, "views_rebuild", {})
    with context.views.database.write() as tx:
        connection = tx.connection  # type: ignore[attr-defined]  # Only PostgreSQL's has one.
        connection.execute("DELETE FROM listing; DELETE FROM passage; DELETE FROM speaking")
        connection.execute(FILL)
        connection.execute(PASSAGES, [tag("s", ""), tag(ROLE, "asked"), tag(PROJECT, 1)])
    with psycopg.connect(roles.owner) as owner:
        for table in tables("clew.views", "pg"):
            owner.execute(f"ANALYZE {table}")
    yield context
    context.close()


def plan(context: Context, name: str, parameters: dict[str, Any], projects: str = "*") -> str:
    """The plan that PostgreSQL keeps for a statement, with clew's own settings."""
    text = statements("pg", "clew.views").get(name) or conditional_statements("pg", "clew.views")[name].given(
        parameters
    )
    names = sorted(one for one in parameters if f"%({one})s" in text)
    numbered = text % {one: f"${number}" for number, one in enumerate(names, 1)}
    values = sql.SQL(", ").join(sql.Literal(parameters[one]) for one in names)
    with context.views.restricted_to(projects).read() as tx:
        cursor = tx.connection.cursor(row_factory=tuple_row)  # type: ignore[attr-defined]
        cursor.execute(f"PREPARE one AS {numbered}")
        given = sql.SQL("({})").format(values) if names else sql.SQL("")
        rows = cursor.execute(sql.SQL("EXPLAIN EXECUTE one {}").format(given)).fetchall()
        cursor.execute("DEALLOCATE one")
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("projects", ["*", "1,3,5"])
def test_no_plan_reads_a_whole_table(context: Context, name: str, projects: str) -> None:
    for parameters in STATEMENTS[name]:
        found = plan(context, name, parameters, projects)
        assert "Seq Scan on" not in found, f"{parameters}\n{found}"
        # The index of the rows themselves, read from end to end, would be no better.
        index = "listing_pkey" if name == "sessions_page" and "keys" in parameters else INDEXES.get(name, "")
        assert index in found, f"{parameters}\n{found}"


@pytest.mark.parametrize("function", ["passages_with", "drop_passages"])
def test_a_search_for_words_uses_their_index(roles: Roles, context: Context, function: str) -> None:
    """The functions of the owner, whom no policy keeps from the index."""
    with psycopg.connect(roles.owner) as owner:
        owner.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET clew.reach = '3'")
        [(body,)] = owner.execute("SELECT pg_get_function_sqlbody(%s::regproc)", [function]).fetchall()
        text = body.partition("BEGIN ATOMIC")[2].rpartition(";")[0]
        for number, name in enumerate(("wanted", "before", "first"), 1):
            text = text.replace(f"{function}.{name}", f"${number}")
        owner.execute(f"PREPARE inside (TSQUERY, BIGINT, BIGINT) AS {text}")
        rows = owner.execute("EXPLAIN EXECUTE inside ('common', 5000, 0)").fetchall()
    found = "\n".join(row[0] for row in rows)
    assert "passage_words" in found, found
    assert "Seq Scan on" not in found, found


def test_a_count_stops_at_its_limit(context: Context) -> None:
    with context.views.read() as tx:
        cursor = tx.connection.cursor(row_factory=tuple_row)  # type: ignore[attr-defined]
        text = conditional_statements("pg", "clew.views")["hits_count"].given(
            values := {**PAGE, "match": "'common'", "limit": 10}
        )
        rows = cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {text}", values).fetchall()
    [called] = [row[0] for row in rows if "ProjectSet" in row[0]]
    assert "actual rows=10" in called, rows


def test_every_statement_that_reads_is_looked_at() -> None:
    names = {*statements("pg", "clew.views"), *conditional_statements("pg", "clew.views")}
    writing = ("_remove", "_set", "_add", "_drop", "_clear", "_close", "_end", "_merge")
    assert {name for name in names if not name.endswith(writing)} - WHOLE == STATEMENTS.keys()
