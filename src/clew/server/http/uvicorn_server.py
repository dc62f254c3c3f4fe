"""An application on uvicorn: time limits for slow clients, and an orderly end.

uvicorn has no time limit for a header or a body, so `Protocol` notes when each began and `Server` closes a connection
that takes too long.
"""

import asyncio
import ctypes
import gc
import os
import resource
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clew.server.http.application import Application
from clew.server.http.listener import BACKLOG
from clew.server.http.supervisor import GRACE_SECONDS

HEADER_SECONDS = 20.0
# How long a client may take to read the end of an answer, once the connection is to be closed.
CLOSING_SECONDS = 5.0
# How long a thread that computes keeps the interpreter while another one waits for it: a fiftieth of Python's
# default, because a request passes through several threads and takes turns in each of them.
SWITCH_SECONDS = 0.0001
MOST_DESCRIPTORS = 65_536
# Descriptors that the store, its blobs, the log and the libraries may need.
OTHER_DESCRIPTORS = 128
# Options of glibc's `mallopt`, and what they are set to: how much free memory at the end of an arena is kept, from
# which size on a block is mapped by itself and unmapped when it is freed, and how many arenas all threads share.
MEMORY_OPTIONS = {-1: 128 * 1024, -3: 128 * 1024, -8: 2}
# The state of a connection whose two ends are open, in Linux' list.
ESTABLISHED = "01"
MOST_HEADER_BYTES = 64 * 1024
KEEP_ALIVE_SECONDS = 60


class Protocol(HttpToolsProtocol):
    """A connection that limits the size of a header, and notes since when it waits for a header or a body."""

    allowed_accounts: frozenset[int] | None = None
    """The accounts of this machine whose programs may connect; None allows all accounts."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.header_since, self.answered_at = self.loop.time(), 0.0
        self.body_since = 0.0
        self.closing_since = 0.0
        self._header_bytes = 0
        if len(self.connections) > most_connections():
            _make_room(self.connections)
        if self.allowed_accounts is not None and not _is_from(self.allowed_accounts, self.client, self.server):
            transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.header_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self.header_since = self.answered_at = 0.0
        self._header_bytes = 0
        self.body_since = self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.body_since = 0.0
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self.header_since and self._header_bytes > MOST_HEADER_BYTES:
            self.send_400_response("The header of the request is too large.")
            return
        super().data_received(data)
        if self.header_since:
            self._header_bytes += len(data)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.answered_at = self.loop.time()
        if not self.pipeline:
            self.header_since = 0.0

    @property
    def idle_since(self) -> float:
        """Since when the server waits for a request, or for the rest of its header; 0 while it carries one out."""
        return self.header_since or self.answered_at


def _make_room(connections: "set[Any]") -> None:
    """Close the connection that has been idle for longest: no descriptor is left for another one."""
    idle = [each for each in connections if isinstance(each, Protocol) and each.idle_since]
    if idle:
        min(idle, key=lambda each: each.idle_since).transport.abort()


def raise_descriptor_limit() -> None:
    """Allow this process as many open files and connections as the machine lets it have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(most, MOST_DESCRIPTORS) if most != resource.RLIM_INFINITY else MOST_DESCRIPTORS
    with suppress(ValueError, OSError):  # macOS names no limit and has one.
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def return_free_memory() -> None:
    """Let the C library give memory back when it is free.

    Answers of up to 16 MB come and go in forty threads. By itself glibc gives each thread an arena of its own, which
    keeps what it needed in its busiest moment: a process then takes 400 MB where 250 MB are used at most.
    """
    with suppress(OSError, AttributeError):  # Other C libraries have no such function.
        set_option = ctypes.CDLL(None).mallopt
        for option, value in MEMORY_OPTIONS.items():
            set_option(option, value)


@cache
def most_connections() -> int:
    """How many connections leave enough descriptors for the store and for accepting another one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(8, min(limit, MOST_DESCRIPTORS) - OTHER_DESCRIPTORS)


class OwnProtocol(Protocol):
    """A connection to the server of one person: programs of other accounts of the machine are refused."""

    allowed_accounts = frozenset({os.geteuid()})


class Server(uvicorn.Server):
    """Closes connections that are too slow, and ends the streams before it waits for running requests."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            # `request_body` refuses a slow body after `body_seconds`; this closes connections whose body no code reads.
            body_seconds = self._application.options.body_seconds + 1
            for connection in list(self.server_state.connections):
                if not isinstance(connection, Protocol):
                    continue
                if connection.transport.is_closing():
                    # A connection that is closed waits until its client has read what was written before.
                    connection.closing_since = connection.closing_since or now
                    if connection.closing_since < now - CLOSING_SECONDS:
                        connection.transport.abort()
                    continue
                is_header_late = 0 < connection.header_since < now - HEADER_SECONDS
                if is_header_late or 0 < connection.body_since < now - body_seconds:
                    connection.transport.close()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._application.end_streams()
        await super().shutdown(sockets)
        # uvicorn would raise the signal again; a server that was asked to end would then seem to have failed.
        self._captured_signals.clear()


def make_server(application: Application, *, proxies: str = "") -> Server:
    """A server for an application; `proxies` are the addresses whose `X-Forwarded-*` headers are believed."""
    raise_descriptor_limit()
    return_free_memory()
    sys.setswitchinterval(SWITCH_SECONDS)
    application.log.capture_loggers("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")
    config = uvicorn.Config(
        application.app,
        http=OwnProtocol if application.options.is_own else Protocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies or None,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
    )
    return Server(config, application)


def serve(server: Server, listener: socket.socket) -> None:
    """Serve with this process alone, until a signal ends it."""
    # Loaded modules stay loaded. The garbage collector would stop all requests to inspect them again.
    gc.collect()
    gc.freeze()
    server.run(sockets=[listener])


# The account of the client --------------------------------------------------------------------------------------------


def _is_from(accounts: frozenset[int], client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> bool:
    """Whether the program at the other end of a connection on this machine runs under one of these accounts.

    Linux lists the account of each connection; on other systems the person's secret alone keeps other accounts out.
    A socket that its program has closed is listed without an inode, and under the account 0 instead of its own.
    """
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return True
    if client is None or server is None or ":" in client[0]:
        return False
    connection = (_hexadecimal(client[0], client[1]), _hexadecimal(server[0], server[1] or 0))
    for line in lines:
        fields = line.split()
        if (fields[1], fields[2]) == connection:
            state, account, inode = fields[3], int(fields[7]), int(fields[9])
            return state == ESTABLISHED and inode != 0 and account in accounts
    return False


def _hexadecimal(host: str, port: int) -> str:
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"
