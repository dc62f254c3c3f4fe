"""An application on uvicorn: sockets, limits for those who talk slowly, processes side by side, and a clean end."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clew.model.errors import InvalidInput, Unavailable
from clew.server.http.application import Application

HEADER_SECONDS = 20.0
MOST_HEADER_BYTES = 64 * 1024
KEEP_ALIVE_SECONDS = 60
GRACE_SECONDS = 30
BACKLOG = 2048
# A process that dies sooner than this after its start is started again with a pause.
SHORT_LIFE_SECONDS = 5.0


class Protocol(HttpToolsProtocol):
    """A connection whose headers come in time and are not endless; uvicorn itself would wait for ever."""

    only_for: frozenset[int] | None = None
    """On one's own machine: the accounts whose programs may connect."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.pending_since = self.loop.time()
        self.body_since = 0.0
        self._pending_bytes = 0
        if self.only_for is not None and not _is_from(self.only_for, self.client, self.server):
            transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.pending_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self.pending_since = 0.0
        self._pending_bytes = 0
        self.body_since = self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.body_since = 0.0
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self.pending_since and self._pending_bytes > MOST_HEADER_BYTES:
            self.send_400_response("The header of the request is too large.")
            return
        super().data_received(data)
        if self.pending_since:
            self._pending_bytes += len(data)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self.pending_since = 0.0


class OwnProtocol(Protocol):
    """A connection to a server on one's own machine: other accounts of the machine are not let in."""

    only_for = frozenset({os.geteuid(), 0})


class Server(uvicorn.Server):
    """Ends streams before it waits for what still runs, and closes connections that never come to the point."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            patience = self._application.options.body_seconds + 1
            for one in list(self.server_state.connections):
                if not isinstance(one, Protocol):
                    continue
                is_mute = 0 < one.pending_since < now - HEADER_SECONDS
                if is_mute or 0 < one.body_since < now - patience:
                    one.transport.close()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._application.end_streams()
        await super().shutdown(sockets)
        # It ended because it was asked to: that is no failure, which raising the signal again would make of it.
        self._captured_signals.clear()


def server(application: Application, *, proxies: str = "") -> Server:
    """A server for an application; `proxies` are the addresses whose word about the client is taken."""
    application.journal.take_over("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")
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


def listen(host: str, port: int, *, tries: int = 1) -> socket.socket:
    """A socket that is bound; of several ports in a row the first that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, port + tries):
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, number))
            made.listen(BACKLOG)
            made.set_inheritable(True)
            return made
        except OSError as error:
            made.close()
            reason = error.strerror
        except OverflowError:
            made.close()
            reason = "there is no such port"
    raise Unavailable(f"cannot listen on {host} port {port}: {reason}; name another with --port")


def address(made: socket.socket) -> str:
    """The address of a socket as a browser takes it."""
    host, port = made.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


# Whose program it is --------------------------------------------------------------------------------------------------


def _is_from(accounts: frozenset[int], client: tuple[str, int] | None, here: tuple[str, int | None] | None) -> bool:
    """Whether the program at the other end of a connection on this machine runs under one of these accounts.

    Linux tells; where nothing does, every program on the machine may connect.
    """
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return True
    if client is None or here is None or ":" in client[0]:
        return True
    wanted = (_hexadecimal(client[0], client[1]), _hexadecimal(here[0], here[1] or 0))
    for line in lines:
        fields = line.split()
        if (fields[1], fields[2]) == wanted:
            return int(fields[7]) in accounts
    return False


def _hexadecimal(host: str, port: int) -> str:
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"


# Processes side by side -----------------------------------------------------------------------------------------------


class Processes:
    """Several processes on one socket; one that dies is replaced, and all end together."""

    def __init__(self, command: Sequence[str], made: socket.socket, count: int, told: Callable[[str], None]) -> None:
        """`command` is run with the number of the socket as its last argument."""
        if count > 64:
            raise InvalidInput(f"{count} processes are more than 64; a few per processor are enough")
        self._command = [*command, str(made.fileno())]
        self._socket = made
        self._count = count
        self._told = told
        self._running: list[tuple[subprocess.Popen[bytes], float]] = []
        self._ending = threading.Event()

    def run(self) -> None:
        """Run until asked to end."""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda *_: self._ending.set())
        self._running = [self._start() for _ in range(self._count)]
        while not self._ending.wait(0.2):
            self._running = [self._kept(*one) for one in self._running]
        self._end()

    def _start(self) -> tuple[subprocess.Popen[bytes], float]:
        # In a session of its own: Ctrl-C is for this process, which then ends the others in good order.
        made = subprocess.Popen(self._command, pass_fds=[self._socket.fileno()], start_new_session=True)
        return made, time.monotonic()

    def _kept(self, process: subprocess.Popen[bytes], began: float) -> tuple[subprocess.Popen[bytes], float]:
        if process.poll() is None:
            return process, began
        self._told(f"process {process.pid} ended with {process.returncode}; another takes its place")
        if time.monotonic() - began < SHORT_LIFE_SECONDS:
            self._ending.wait(1.0)
        return (process, began) if self._ending.is_set() else self._start()

    def _end(self) -> None:
        self._socket.close()
        for process, _ in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        end = time.monotonic() + GRACE_SECONDS + 10
        for process, _ in self._running:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
