"""An agent that talks to the MCP server: each call on a connection of its own, so that nothing can hide in one."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anyio
import pytest

from clew.model.access import owner_of_everything
from clew.service import Context
from clew.store import Store

ME = "person:ada"


class Told(NamedTuple):
    """What a tool gave back."""

    values: dict[str, Any]
    text: str
    failed: bool


class Agent:
    """Calls tools in this process, in one of the protocol's two ways: `legacy` up to 2025-11-25, or 2026-07-28."""

    def __init__(self, server: Any, mode: str = "2026-07-28") -> None:
        self._server = server
        self._mode = mode

    def do(self, ask: Callable[[Any], Any]) -> Any:
        """What a client of the SDK gives back for one request."""
        from mcp.shared.exceptions import MCPError

        from mcp import Client

        async def run() -> Any:
            async with Client(self._server, mode=self._mode) as client:
                try:
                    return await ask(client)
                except MCPError as error:
                    return error  # Raised below: the client would wrap it in groups.

        found = anyio.run(run)
        if isinstance(found, MCPError):
            raise found
        return found

    def call(self, tool: str, /, **arguments: Any) -> Told:
        found = self.do(lambda client: client.call_tool(tool, arguments))
        [content] = found.content
        # What programs and readers of text get comes as JSON, so that it is compared as such.
        return Told(json.loads(json.dumps(found.structured_content)), content.text, bool(found.is_error))

    def good(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        told = self.call(tool, **arguments)
        assert not told.failed, told.text
        return told.values

    def refused(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        told = self.call(tool, **arguments)
        assert told.failed, told.text
        assert told.text == f"{told.values['error']}: {told.values['message']}"
        return told.values


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    found = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), machine="here")
    yield found
    found.views.close()


@pytest.fixture(params=["legacy", "2026-07-28"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def agent(context: Context) -> Agent:
    from clew.mcp.server import build

    return Agent(build(lambda _: context, runtime="codex"))
