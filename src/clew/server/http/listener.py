"""The socket that a server listens on. The supervisor keeps it open while server processes come and go."""

import errno
import socket
import time

from clew.model.errors import Unavailable

BACKLOG = 2048
# How long the socket of a server that was killed may take to close.
CLOSING_SECONDS = 3.0
RETRY_SECONDS = 0.05


def listen(host: str, port: int, *, tries: int = 1, patience: float = 0.0) -> socket.socket:
    """A socket that listens on the first free port of `tries` in a row; `patience` is for a port that is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    end = time.monotonic() + patience
    number = port
    while number < port + tries:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(BACKLOG)
            listener.set_inheritable(True)
            return listener
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE and time.monotonic() < end:
                time.sleep(RETRY_SECONDS)
                continue
            reason = error.strerror
        except OverflowError:
            listener.close()
            reason = "there is no such port"
        number += 1
    raise Unavailable(f"cannot listen on {host} port {port}: {reason}; name another with --port")


def url_of(listener: socket.socket) -> str:
    """The URL of a socket that listens."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
