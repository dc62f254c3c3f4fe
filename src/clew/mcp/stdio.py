"""Standard input and output of the MCP server: it continues a conversation that `clew.mcp_greeting` may have begun.

The answers that do not depend on what is stored are kept, so that the next conversation begins without the server.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from io import TextIOWrapper
from typing import Any, cast

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server

from clew.mcp_greeting import Begun, begun, cached_answers, claim_input, key, save_answers


def streams(home: str) -> AbstractAsyncContextManager[Any]:
    """The streams of messages from and to the client."""
    answers = _Answers(home, begun)
    incoming, outgoing = _Incoming(begun, answers), _Outgoing(answers)
    # The SDK only iterates over the one, and only writes to and flushes the other.
    return stdio_server(cast("anyio.AsyncFile[str]", incoming), cast("anyio.AsyncFile[str]", outgoing))


class _Answers:
    """Which requests wait for an answer that is kept, and which answers the client has already."""

    def __init__(self, home: str, conversation: Begun) -> None:
        self._home = home
        self._conversation = conversation
        self._given = list(conversation.answered)
        self._awaited: dict[str, str] = {}

    def asked(self, line: bytes) -> None:
        if not any(method in line for method in (b"initialize", b"/list")):
            return
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return  # The SDK answers that it is no message.
        if isinstance(request, dict) and (name := key(self._conversation, request)) and "id" in request:
            self._awaited[json.dumps(request["id"])] = name

    def is_new(self, text: str) -> bool:
        """Keep the answer if it is one of those; False if the client has it already."""
        if not (self._awaited or self._given):
            return True
        message = json.loads(text)
        id = message.get("id")
        name = self._awaited.pop(json.dumps(id), "")
        if name and "result" in message and cached_answers(self._home).get(name) != message["result"] and self._home:
            save_answers(self._home, {name: message["result"]})
        if id in self._given and "method" not in message:
            self._given.remove(id)
            return False
        return True


class _Incoming:
    """The lines that the client sends, those first that were read before the server was loaded."""

    def __init__(self, conversation: Begun, answers: _Answers) -> None:
        self._wire = conversation.wire or claim_input()
        self._first = list(conversation.first)
        self._answers = answers

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := self._first.pop(0) if self._first else await anyio.to_thread.run_sync(self._wire.readline):
            self._answers.asked(line)
            yield line.decode("utf-8", "replace")


class _Outgoing:
    """What the client reads. Other output of this process goes to standard error."""

    def __init__(self, answers: _Answers) -> None:
        self._file = anyio.wrap_file(TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding="utf-8"))
        os.dup2(2, 1)
        self._answers = answers

    async def write(self, text: str) -> None:
        if self._answers.is_new(text):
            await self._file.write(text)

    async def flush(self) -> None:
        await self._file.flush()
