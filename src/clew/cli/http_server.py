"""The HTTP server, as `clew up` and `clew serve` build it: a supervisor, and the processes that it runs."""

import os
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from clew import app
from clew.model.errors import InvalidInput

if TYPE_CHECKING:
    from clew.server.http.application import Application
    from clew.server.options import Options

PORT = 8519


def server_options(**values: Any) -> "Options":
    try:
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401

        from clew.server.options import Options
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{error.name} is not installed; install clew with its server: clew[server]") from None
    return Options(**values)


def loopback_names() -> tuple[str, ...]:
    from clew.server.options import LOOPBACK_NAMES

    return LOOPBACK_NAMES


def make_application(settings: app.Settings, options: "Options") -> "Application":
    from clew.server.http.application import Application

    return Application(
        app.authenticator(settings, opens_servers=options.is_own), options, mcp=lambda contexts: _mcp(contexts, options)
    )


def supervise(settings: app.Settings, words: Sequence[str], listener: socket.socket, processes: int = 1) -> None:
    """Run a command of clew in processes that serve on a socket, until this one is asked to end."""
    from clew.server.http.supervisor import Supervisor

    # The environment carries the store: every account on the machine can read the arguments of a process.
    os.environ["CLEW_STORE"], os.environ["CLEW_HOME"] = settings.store, str(settings.home)
    os.environ["CLEW_PRINCIPAL"] = settings.principal
    command = [sys.executable, "-P", "-m", "clew", *words]
    Supervisor(command, listener, processes, lambda text: click.echo(text, err=True)).run()


def serve_supervised(application: "Application", fd: int, *, proxies: str = "") -> None:
    """Serve on a socket of the supervisor that started this process."""
    from clew.server.http.supervisor import end_with_supervisor
    from clew.server.http.uvicorn_server import make_server, serve

    end_with_supervisor()
    serve(make_server(application, proxies=proxies), socket.socket(fileno=fd))


def _mcp(contexts: Any, options: "Options") -> Any:
    """The application at /mcp; loaded at the first request for it, because it takes two seconds."""
    from clew.mcp.server import http_app

    origins = [options.public_url] if options.public_url else []
    return http_app(contexts, hosts=options.hosts or loopback_names(), origins=origins)
