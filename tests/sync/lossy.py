"""A line on which answers get lost: the server has done what it was asked for, and nobody hears of it."""

import socket
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Lossy:
    """Stands before a server and drops its next answers."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._server = (parts.hostname or "", parts.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.drops = 0
        self.dropped = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            asking = threading.Thread(target=_forward, args=[client, server], daemon=True)
            asking.start()
            while data := _received(server):
                if self.drops:
                    self.drops -= 1
                    self.dropped += 1
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
            asking.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _forward(client: socket.socket, server: socket.socket) -> None:
    while data := _received(client):
        try:
            server.sendall(data)
        except OSError:
            return


def _received(from_whom: socket.socket) -> bytes:
    try:
        return from_whom.recv(1 << 16)
    except OSError:
        return b""
