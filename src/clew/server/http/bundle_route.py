"""A session as a bundle over HTTP: bytes that are sent while they are made, for a file and never for a page."""

from functools import partial

from starlette.types import Receive, Send

from clew.model.errors import InvalidInput
from clew.server.http.exchange import Answer, Exchange
from clew.server.http.object_routes import begun, headers_of
from clew.server.http.operations import Operations
from clew.server.login.identity import Credential
from clew.service.bundles.bundle import OpenedBundle
from clew.service.kernel.call import call

ROUTE = "/v1/sessions/{session}/bundle"


class BundleRoute:
    """The route."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        operations.others.add("GET", ROUTE, self.download)

    async def download(self, exchange: Exchange, values: list[str], receive: Receive, send: Send) -> None:
        exchange.route = ROUTE
        credential = self._operations.credential(exchange)
        answer = await self._operations.in_turn(credential, partial(self._open, exchange, credential, *values), receive)
        await exchange.answer(send, answer)
        if answer.rest is not None:
            await self._operations.send_rest(exchange, credential, answer.rest, receive, send)

    def _open(self, exchange: Exchange, credential: Credential, session: str) -> Answer:
        if exchange.scope["query_string"]:
            raise InvalidInput("a bundle is read without parameters; it has all of its session")
        context = self._operations.admit(exchange, credential)
        opened: OpenedBundle = call(context, "bundle_open", {"session": session})
        return begun(200, headers_of(opened.name), opened.pieces)
