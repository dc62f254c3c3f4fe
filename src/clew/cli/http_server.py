"""The HTTP server, as `clew up` and `clew serve` build it."""

from typing import TYPE_CHECKING, Any

from clew import app
from clew.model.errors import InvalidInput

if TYPE_CHECKING:
    from clew.server.http.application import Application
    from clew.server.options import Options

PORT = 8519


def server_options(**values: Any) -> "Options":
    try:
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

    return Application(app.authenticator(settings), options, mcp=lambda contexts: _mcp(contexts, options))


def _mcp(contexts: Any, options: "Options") -> Any:
    """The application at /mcp; loaded at the first request for it, because it takes two seconds."""
    from clew.mcp.server import http_app

    origins = [options.public_url] if options.public_url else []
    return http_app(contexts, hosts=options.hosts or loopback_names(), origins=origins)
