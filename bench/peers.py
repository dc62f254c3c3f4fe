"""The peers, run in one process of their own environment (bench/.peers) and never imported by the benchmark.

Each line of standard input is a request, `{"peer": "openai_sqlite", "op": "setup" | "append" | "load", ...}`, and is
answered by one line, `{"seconds": ...}` or `{"error": ...}`. A peer times its own operation in here, so that pipes and
JSON cost it nothing. `setup` takes `where` (a file or a URL) and `depth`: it prepares two sessions of that many
messages, one that appends make longer and one that is only loaded.

Every peer runs as its documentation shows it, on its default durability.
"""

import asyncio
import gc
import json
import os
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any, ClassVar, Protocol

from corpus import texts

GROWING, FIXED = "growing", "fixed"


class Peer(Protocol):
    """A session store of another project. `load` returns how many messages came back."""

    async def setup(self, where: str, depth: int) -> None: ...
    async def append(self, text: str) -> None: ...
    async def load(self) -> int: ...


class LangGraph:
    """A graph of one node whose only state is its messages; an append is one `invoke` with one message."""

    async def setup(self, where: str, depth: int) -> None:
        from langchain_core.messages import HumanMessage
        from langgraph.graph import END, START, MessagesState, StateGraph

        def answer(state: MessagesState) -> dict[str, Any]:
            return {}

        self._message = HumanMessage
        self._saver = self.saver(where)
        self._saver.setup()
        graph = StateGraph(MessagesState)
        graph.add_node("answer", answer)
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        self._graph = graph.compile(checkpointer=self._saver)
        # One invoke with every message makes the state as large as that many invokes do, without their disk.
        for thread, seed in ((GROWING, 1), (FIXED, 2)):
            self._invoke(thread, list(islice(texts(seed), depth)))

    def saver(self, where: str) -> Any:
        raise NotImplementedError

    def _invoke(self, thread: str, said: list[str]) -> None:
        self._graph.invoke({"messages": [self._message(text) for text in said]}, _config(thread))

    async def append(self, text: str) -> None:
        self._invoke(GROWING, [text])

    async def load(self) -> int:
        # The saver's own read: `get_state` of the graph prepares the next tasks on top of it.
        return len(self._saver.get_tuple(_config(FIXED)).checkpoint["channel_values"]["messages"])


def _config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


class LangGraphSqlite(LangGraph):
    """SqliteSaver."""

    def saver(self, where: str) -> Any:
        from langgraph.checkpoint.sqlite import SqliteSaver

        return SqliteSaver(sqlite3.connect(where, check_same_thread=False))


class LangGraphPostgres(LangGraph):
    """PostgresSaver."""

    def saver(self, where: str) -> Any:
        from langgraph.checkpoint.postgres import PostgresSaver

        self._opened = PostgresSaver.from_conn_string(where)
        return self._opened.__enter__()


class OpenAI:
    """A session of the OpenAI Agents SDK; an append is one `add_items` with one item."""

    async def setup(self, where: str, depth: int) -> None:
        self._growing, self._fixed = self.session(where, GROWING), self.session(where, FIXED)
        for session, seed in ((self._growing, 1), (self._fixed, 2)):
            await session.add_items([_item(text) for text in islice(texts(seed), depth)])

    def session(self, where: str, name: str) -> Any:
        raise NotImplementedError

    async def append(self, text: str) -> None:
        await self._growing.add_items([_item(text)])

    async def load(self) -> int:
        return len(await self._fixed.get_items())


def _item(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


class OpenAISqlite(OpenAI):
    """SQLiteSession."""

    def session(self, where: str, name: str) -> Any:
        from agents import SQLiteSession

        return SQLiteSession(name, where)


class OpenAIPostgres(OpenAI):
    """SQLAlchemySession over asyncpg."""

    def session(self, where: str, name: str) -> Any:
        from agents.extensions.memory import SQLAlchemySession

        return SQLAlchemySession.from_url(name, url=_asyncpg(where), create_tables=True)


class Adk:
    """A session service of Google ADK; an append is one `append_event`."""

    _WHO: ClassVar = {"app_name": "bench", "user_id": "bench"}

    async def setup(self, where: str, depth: int) -> None:
        from google.adk.events import Event
        from google.genai.types import Content, Part

        self._event, self._content, self._part = Event, Content, Part
        self._service = self.service(where)
        self._growing = await self._filled(GROWING, depth, seed=1)
        await self._filled(FIXED, depth, seed=2)

    def service(self, where: str) -> Any:
        raise NotImplementedError

    async def _filled(self, name: str, depth: int, *, seed: int) -> Any:
        session = await self._service.create_session(session_id=name, **self._WHO)
        for text in islice(texts(seed), depth):
            await self._service.append_event(session, self._said(text))
        return session

    def _said(self, text: str) -> Any:
        content = self._content(role="user", parts=[self._part(text=text)])
        return self._event(author="user", invocation_id="bench", content=content)

    async def append(self, text: str) -> None:
        await self._service.append_event(self._growing, self._said(text))

    async def load(self) -> int:
        return len((await self._service.get_session(session_id=FIXED, **self._WHO)).events)


class AdkSqlite(Adk):
    """SqliteSessionService, the faster of the two that ADK has for SQLite."""

    def service(self, where: str) -> Any:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        return SqliteSessionService(where)


class AdkPostgres(Adk):
    """DatabaseSessionService over asyncpg."""

    def service(self, where: str) -> Any:
        from google.adk.sessions import DatabaseSessionService

        return DatabaseSessionService(_asyncpg(where))


def _asyncpg(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://", 1)


PEERS: dict[str, Callable[[], Peer]] = {
    "langgraph_sqlite": LangGraphSqlite,
    "langgraph_postgres": LangGraphPostgres,
    "openai_sqlite": OpenAISqlite,
    "openai_postgres": OpenAIPostgres,
    "adk_sqlite": AdkSqlite,
    "adk_postgres": AdkPostgres,
}


class Desk:
    """Answers requests. One event loop lives as long as the process, as it does in a server."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._peers: dict[str, Peer] = {}
        self._texts = texts(3)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["peer"]
        match request["op"]:
            case "setup":
                peer = self._peers[name] = PEERS[name]()
                answer = self._timed(peer.setup(request["where"], request["depth"]))
                # What an import leaves behind is no garbage of the peer measured next.
                gc.collect()
                gc.freeze()
                return answer
            case "append":
                return self._timed(self._peers[name].append(next(self._texts)))
            case "load":
                return self._timed(self._peers[name].load())
            case unknown:
                raise ValueError(f"no operation {unknown!r}; there are setup, append and load")

    def _timed(self, operation: Awaitable[Any]) -> dict[str, Any]:
        async def run() -> dict[str, Any]:
            start = time.perf_counter()
            result = await operation
            return {"seconds": time.perf_counter() - start, "result": result}

        return self._loop.run_until_complete(run())


def main() -> None:
    """Serve requests until standard input ends."""
    os.environ.update(LANGSMITH_TRACING="false", OPENAI_AGENTS_DISABLE_TRACING="1")
    # Answers get a descriptor of their own, so that nothing a library prints can end up between them.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    desk = Desk()
    for line in sys.stdin:
        try:
            answer = desk.answer(json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
