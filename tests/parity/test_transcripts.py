"""Whatever happened in a session, its transcript is the same over every surface: the same items in the same order."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.cli import showing
from clew.client import OpenSession
from clew.local import Local
from clew.mcp.tools import read_slice
from clew.model import events as e
from clew.model.errors import ClewError
from clew.model.session import Session
from clew.model.transcript import Item
from clew.server.web.page_request import PageRequest, Shell
from clew.server.web.pages.session import session as page_of
from clew.server.web.rendering import render
from clew.service import Context, call
from clew.service.kernel.registry import operation_named
from clew.service.kernel.results import result_from, to_json
from clew.store import Store, open_store
from store.rows import age, change
from support.postgres import Server
from support.talks import add, on, opened

UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
# Every text is one word that says its role and its number, so that a word in a page is an item of the transcript.
WORD = re.compile(
    r"\b(?:user|assistant|side|tool|out|fact|summary)\d+w\b|\d+ events? (?:before this )?w(?:as|ere) taken back"
)

ANSWERS = st.sampled_from(["", "m1", "m2"])
SOURCES = st.sampled_from(["a", "b", "c", "d/1", "d/2"])
STEPS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["user", "assistant"]), ANSWERS, st.none() | SOURCES),
    st.tuples(st.just("say"), st.sampled_from(["user", "assistant"]), ANSWERS, st.none() | SOURCES),
    st.tuples(st.just("side")),
    st.tuples(st.just("made"), st.sampled_from("123"), ANSWERS, st.none() | SOURCES),
    st.tuples(st.just("returned"), st.sampled_from("123")),
    st.tuples(st.just("returned"), st.sampled_from("123")),
    st.tuples(st.just("rewound"), st.sampled_from(["", "a", "b", "c", "d", "nowhere"])),
    st.tuples(st.just("revised"), SOURCES),
    st.tuples(st.just("known")),
    st.tuples(st.just("compacted")),
    st.tuples(st.just("fork"), st.integers(1, 20)),
    st.tuples(st.just("subagent")),
    st.tuples(st.just("prune")),
    st.tuples(st.just("damage"), st.integers(2, 20)),
)


class Talk:
    """Sessions to which things happen."""

    def __init__(self, store: Store) -> None:
        self.context = on(store)
        self.sessions = [opened(self.context, metadata='{"runtime":"x","native":"mother"}')]
        self._number = 0

    def run(self, steps: list[Any]) -> None:
        for name, *arguments in steps:
            with suppress(ClewError):
                getattr(self, name)(*arguments)

    def word(self, role: str) -> str:
        self._number += 1
        return f"{role}{self._number}w"

    def add(self, body: e.Body, source: str | None = None) -> None:
        add(self.context, self.sessions[-1], e.Draft(body=body, source=source))

    def say(self, role: str, message: str, source: str | None) -> None:
        self.add(e.MessageAdded(role=role, text=self.word(role), message=message * (role == "assistant")), source)

    def side(self) -> None:
        self.add(e.MessageAdded(role="assistant", text=self.word("side"), side="helper"))

    def made(self, id: str, message: str, source: str | None) -> None:
        self.add(e.CallMade(call=id, tool=self.word("tool"), message=message), source)

    def returned(self, id: str) -> None:
        self.add(e.CallReturned(call=id, output=msgspec.Raw(msgspec.json.encode(self.word("out")))))

    def rewound(self, to: str) -> None:
        self.add(e.Rewound(to=to))

    def revised(self, source: str) -> None:
        self.add(e.MessageAdded(role="user", text=self.word("user")), f"{source}~{self._number}")

    def known(self) -> None:
        self.add(e.FactLearned(fact=str(self._number), text=self.word("fact")))

    def compacted(self) -> None:
        self.add(e.Compacted(summary=self.word("summary")))

    def fork(self, at: int) -> None:
        parent = self.sessions[-1]
        at = min(at, self.context.store.head(parent).head)
        child = call(self.context, "fork", {"session": parent.id, "at": at})
        self.sessions.append(self.context.store.session(child.id))

    def subagent(self) -> None:
        opened(self.context, metadata='{"runtime":"x","native":"child","parent":"mother"}', title="a child")

    def prune(self) -> None:
        call(self.context, "retention_set", {"project": "default", "keep_days": 5})
        age(self.context.store, self.sessions[-1], days=10)
        call(self.context, "retention_apply", {})

    def damage(self, seq: int) -> None:
        session = self.sessions[-1]
        change(
            self.context.store,
            f"UPDATE event SET body = '{{\"damaged' WHERE session = {session.key} AND seq = {seq} AND body IS NOT NULL",
        )


# The surfaces ---------------------------------------------------------------------------------------------------------


def over_python(context: Context, session: Session) -> str:
    turns = OpenSession(Local(context), session.id).transcript()
    return "\n".join(_written(item) for turn in turns for item in turn.items)


def _written(item: Item) -> str:
    if item.event is None:
        return f"{item.withdrawn} events were taken back"
    texts = [_text(item.event.body)]
    if item.returned is not None:
        texts.append(_text(item.returned.body))
    return "\n".join(texts)


def _text(body: e.AnyBody) -> str:
    match body:
        case e.MessageAdded(text=text) | e.FactLearned(text=text) | e.Compacted(summary=text):
            return text
        case e.CallMade(tool=tool):
            return tool
        case e.CallReturned(output=output):
            return bytes(output).decode()
        case _:
            return ""


def over_terminal(context: Context, session: Session) -> str:
    plane = SimpleNamespace(
        call=lambda name, **given: call(context, name, given), settings=SimpleNamespace(principal=context.principal)
    )
    shown = "".join(showing.on_paper(showing.transcript_blocks(plane, session.id, showing.Wanted(full=True))))
    return re.split(r"\n(?:decisions|facts|progress|scratch|working set)\n", shown)[0]


def over_page(context: Context, session: Session) -> str:
    def ask(name: str, **given: Any) -> Any:
        return result_from(operation_named(name).result, to_json(call(context, name, given)))

    # The turns alone, without what is around them.
    request = PageRequest(call=ask, path={"session": session.id}, query={"part": "turns"}, principal=context.principal)
    return render(page_of(request), Shell(is_fragment=True))


def over_mcp(context: Context, session: Session) -> str:
    told, cursor = "", "1"
    while cursor:
        piece = read_slice(context, session.id, cursor, 3)
        told, cursor = f"{told}\n{piece.text}", piece.next
    return told


def over_markdown(context: Context, session: Session) -> str:
    return _exported(context, session, "markdown")


def over_html(context: Context, session: Session) -> str:
    return _exported(context, session, "html")


def _exported(context: Context, session: Session, form: str) -> str:
    [file] = call(context, "export", {"session": session.id, "form": form})
    # The events for programs are embedded at the end.
    text: str = file.data.decode()
    return text.partition("<!-- clew:events")[0]


SURFACES = (over_terminal, over_page, over_mcp, over_markdown, over_html)


def words(text: str) -> list[str]:
    """The words of the transcript, in order; a call is told by its tool, and its return right after it."""
    return [f"{found.split()[0]} back" if " " in found else found for found in WORD.findall(text)]


def check(store: Store, steps: list[Any]) -> None:
    talk = Talk(store)
    talk.run(steps)
    for session in talk.sessions:
        expected = words(over_python(talk.context, session))
        for surface in SURFACES:
            assert words(surface(talk.context, session)) == expected, surface.__name__
    for views in talk.context._views:
        views.close()


@settings(max_examples=40, suppress_health_check=UNHURRIED)
@given(steps=st.lists(STEPS, min_size=4, max_size=40))
def test_a_transcript_is_the_same_over_every_surface_on_sqlite(steps: list[Any]) -> None:
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        open_store(f"sqlite:///{folder}/clew.db", synchronous="OFF") as store,
    ):
        check(store, steps)


@settings(max_examples=5, suppress_health_check=UNHURRIED)
@given(steps=st.lists(STEPS, min_size=4, max_size=40))
def test_a_transcript_is_the_same_over_every_surface_on_postgres(emptied: Store, steps: list[Any]) -> None:
    change(emptied, *(f"DELETE FROM {table}" for table in ("event", "head", "session", "blob", "policy")))
    check(emptied, steps)


@pytest.fixture(scope="module")
def emptied(postgres: Server) -> Iterator[Store]:
    with open_store(postgres.new_database()) as store:
        yield store
