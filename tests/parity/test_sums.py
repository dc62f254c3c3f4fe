"""Whatever happened, every surface says the same of a session: when it was, what it cost, and how much was done."""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.cli.results.session import state_lines
from clew.model import events as e
from clew.model.errors import ClewError, InvalidInput
from clew.model.session import Session
from clew.runtimes.adapters.interchange import moment
from clew.runtimes.export_forms.markdown import clock
from clew.service import Context, call
from clew.service.sessions.line import SessionLine
from clew.store import Store, open_store
from store.rows import age, change
from support.postgres import Server
from support.talks import HOUR, MONDAY, on, opened

UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
# In US dollars for a million tokens; `free` has no price. Whole dollars, so that no row of any table is rounded.
PRICES = {"m": {"input": 2, "output": 10, "cache_read": 1, "cache_write": 3}, "n": {"input": 100, "output": 100}}

TIMES = st.none() | st.integers(0, 500).map(lambda hours: MONDAY + hours * HOUR)
SOURCES = st.none() | st.sampled_from(["a", "b", "c"])
USAGE = st.none() | st.builds(
    e.Usage, input=st.integers(0, 5000), output=st.integers(0, 900), cache_read=st.integers(0, 9000),
    cache_write=st.integers(0, 800), cost_micros=st.sampled_from([0, 0, 1234]),
)  # fmt: skip
MODELS = st.sampled_from(["m", "n", "free"])
# A long id of an answer counts in all sessions, a short one in its own.
ANSWERS = st.sampled_from(["", "short", "msg_0123456789abcdef", "msg_fedcba9876543210"])
STEPS = st.one_of(
    st.tuples(st.just("ask"), TIMES, SOURCES),
    st.tuples(st.just("answer"), TIMES, SOURCES, ANSWERS, MODELS, USAGE),
    st.tuples(st.just("answer"), TIMES, SOURCES, ANSWERS, MODELS, USAGE),
    st.tuples(st.just("use"), TIMES, st.booleans()),
    st.tuples(st.just("end"), TIMES, MODELS, USAGE),
    st.tuples(st.just("revise"), SOURCES, MODELS, USAGE),
    st.tuples(st.just("open")),
    st.tuples(st.just("fork"), st.integers(1, 20)),
    st.tuples(st.just("limit"), st.sampled_from([{"tokens": 20_000}, {"usd": 0.5}, {"unlimited": True}])),
    st.tuples(st.just("prune")),
    st.tuples(st.just("close")),
)


class History:
    """Sessions that use tokens, at times of their own."""

    def __init__(self, store: Store, home: str) -> None:
        self.context = on(store, home=home)
        self.context.views.rebuild()  # Without what an earlier log left in them.
        self.sessions = [opened(self.context)]
        self._number = 0

    def run(self, steps: list[Any]) -> None:
        for name, *arguments in steps:
            self._number += 1
            with suppress(ClewError):
                getattr(self, name)(*arguments)

    def _add(self, body: e.Body, at: int | None, source: str | None) -> None:
        drafts = [e.Draft(body=body, said_at=at, source=source)]
        call(self.context, "append", {"session": self.sessions[-1].id, "drafts": drafts})

    def ask(self, at: int | None, source: str | None) -> None:
        self._add(e.MessageAdded(role="user", text="why?"), at, source)

    def answer(self, at: int | None, source: str | None, message: str, model: str, usage: e.Usage | None) -> None:
        self._add(e.MessageAdded(role="assistant", text="so", message=message, model=model, usage=usage), at, source)

    def use(self, at: int | None, failed: bool) -> None:
        self._add(e.CallMade(call=str(self._number), tool="Bash"), at, None)
        self._add(e.CallReturned(call=str(self._number), failed=failed), at, None)

    def end(self, at: int | None, model: str, usage: e.Usage | None) -> None:
        self._add(e.TurnEnded(model=model, usage=usage), at, None)

    def revise(self, source: str | None, model: str, usage: e.Usage | None) -> None:
        body = e.MessageAdded(role="assistant", text="rather", model=model, usage=usage)
        self._add(body, None, f"{source}~{self._number}")

    def open(self) -> None:
        self.sessions.append(opened(self.context))

    def fork(self, at: int) -> None:
        parent = self.sessions[-1]
        at = min(at, self.context.store.head(parent).head)
        child = call(self.context, "fork", {"session": parent.id, "at": at})
        self.sessions.append(self.context.store.session(child.id))

    def limit(self, budget: dict[str, Any]) -> None:
        call(self.context, "budget", {"session": self.sessions[-1].id, **budget})

    def prune(self) -> None:
        call(self.context, "retention_set", {"project": "default", "keep_days": 5})
        age(self.context.store, self.sessions[-1], days=10)
        call(self.context, "retention_apply", {})

    def close(self) -> None:
        call(self.context, "close", {"session": self.sessions[-1].id})


def check(store: Store, home: str, steps: list[Any]) -> None:
    history = History(store, home)
    context = history.context
    history.run(steps)
    lines = {line.id: line for line in call(context, "sessions", {"limit": 1000})}
    report = call(context, "usage", {"by": ["session"]})
    used = {row.by["session"]: row for row in report.rows}
    assert lines.keys() == {session.id for session in history.sessions}
    assert report.total.cost_micros == sum(line.cost_micros or 0 for line in lines.values())
    assert report.total.tokens == sum(line.tokens for line in lines.values())
    others = [call(context, "usage", {"by": [by]}).rows for by in ("day", "week", "month", "model", "runtime")]
    for rows in (*others, call(context, "usage_blocks", {"limit": 10_000}).blocks):
        assert sum(row.cost_micros for row in rows) == report.total.cost_micros
        assert sum(row.tokens for row in rows) == report.total.tokens
    assert {sum(row.answers for row in rows) for rows in others} == {report.total.answers}
    for session in history.sessions:
        line = lines[session.id]
        assert _lasting(call(context, "show", {"session": session.id}).session) == _lasting(line)
        assert _lasting(call(context, "budget", {"session": session.id})) == _lasting(line)
        row = used.get(session.id)
        own = (row.tokens, row.cache_read, row.money) if row else (0, 0, 0)
        assert own == (line.tokens, line.cached_tokens, line.cost_micros)
        assert row is None or row.budget_used == line.budget_used
        assert line.began_at <= line.last_at or session.parent is not None or line.began_at == session.opened_at
        assert line.spent_cost_micros >= (line.cost_micros or 0)
        check_forms(context, session, line)
    for views in context._views:
        views.close()


def _lasting(line: SessionLine) -> SessionLine:
    """The line without what becomes another one while time goes on."""
    return msgspec.structs.replace(line, status="")


def check_forms(context: Context, session: Session, line: SessionLine) -> None:
    """What the exports and `show` tell of the session in words."""
    shown = dict(state_lines(call(context, "show", {"session": session.id})))
    markdown = _exported(context, session, "markdown")
    facts = dict(re.findall(r"^\| ([A-Z][a-z ]+) \| (.*) \|$", markdown, re.MULTILINE))
    page = _exported(context, session, "html")
    assert dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)).items() >= (facts | {"Exported": ANY}).items()
    assert (facts["Began"], facts["Last"]) == (clock(line.began_at), clock(line.last_at))
    assert int(facts.get("Turns", 0)) == line.turns
    assert facts.get("Calls", "0").partition(",")[0] == str(line.calls)
    cost = re.search(r"\$(\d+\.\d+)", facts.get("Used", ""))
    assert (round(float(cost[1]) * 1e6) if cost else 0) == (line.cost_micros or 0)
    assert "used" not in shown or f"{line.tokens:,} tokens" in shown["used"]
    told = json.loads(_exported(context, session, "copilot").partition("\n")[0])
    assert told["createdAt"] == moment(line.began_at)
    with suppress(InvalidInput):  # A trajectory has at least one step.
        metrics = json.loads(_exported(context, session, "atif"))["final_metrics"]
        assert round(metrics.get("total_cost_usd", 0) * 1e6) == (line.cost_micros or 0)


class _Any:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


ANY: Any = _Any()


def _exported(context: Context, session: Session, form: str) -> str:
    [file] = call(context, "export", {"session": session.id, "form": form})
    text: str = file.data.decode()
    return text.partition("<!-- clew:events")[0]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("home")
    (folder / "prices.json").write_text(json.dumps({"models": PRICES}))
    return str(folder)


@settings(max_examples=40, suppress_health_check=UNHURRIED)
@given(steps=st.lists(STEPS, min_size=3, max_size=30))
def test_every_surface_agrees_on_time_money_and_counts_on_sqlite(home: str, steps: list[Any]) -> None:
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        open_store(f"sqlite:///{folder}/clew.db", synchronous="OFF") as store,
    ):
        check(store, home, steps)


@settings(max_examples=5, suppress_health_check=UNHURRIED)
@given(steps=st.lists(STEPS, min_size=3, max_size=30))
def test_every_surface_agrees_on_time_money_and_counts_on_postgres(emptied: Store, home: str, steps: list[Any]) -> None:
    change(emptied, *(f"DELETE FROM {table}" for table in ("event", "head", "session", "blob", "policy")))
    check(emptied, home, steps)


@pytest.fixture(scope="module")
def emptied(postgres: Server) -> Iterator[Store]:
    with open_store(postgres.new_database()) as store:
        yield store


def test_a_budget_in_money_counts_what_list_prices_say(store: Store, home: str) -> None:
    context = on(store, home=home)
    session = call(context, "open", {"budget_usd": 0.01})
    usage = {"kind": "message_added", "role": "assistant", "text": "so", "model": "m", "usage": {"output": 900}}
    call(context, "append", {"session": session.id, "drafts": [usage]})
    assert call(context, "budget", {"session": session.id}).budget_used == pytest.approx(0.9)
    with pytest.raises(ClewError) as refusal:
        call(context, "append", {"session": session.id, "drafts": [usage]})
    assert (refusal.value.code, refusal.value.details["spent_cost_micros"]) == ("budget_exceeded", 18_000)
    shown = call(context, "show", {"session": session.id}).session
    assert (shown.state, shown.cost_micros, shown.head) == ("paused", 18_000, 5)
    with pytest.raises(ClewError, match="over its budget"):
        call(context, "resume", {"session": session.id})
    child = call(context, "fork", {"session": session.id})
    assert call(context, "budget", {"session": child.id}).spent_cost_micros == 18_000
    context.close()
