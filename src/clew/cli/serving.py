"""`clew up` for one person on their own machine, and `clew serve` for a team."""

import os
import socket
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from clew import app
from clew.model.errors import InvalidInput
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.server.http.application import Application
    from clew.server.options import Options
    from clew.service.access.authenticator import Authenticator

PORT = 8519
NEXT_PORTS = 20


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help=f"[default: {PORT}, or the next that is free]")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.option("--no-capture", is_flag=True, help="Do not capture what agent programs do meanwhile.")
@click.pass_obj
def up(plane: Any, port: int | None, no_browser: bool, no_capture: bool) -> None:
    """Show your sessions in a browser, and capture new ones as they come. For you alone, on this machine.

    Listens on 127.0.0.1 only and asks for no login: programs of other accounts on the machine are not let in, and
    pages of other sites cannot reach it.
    """
    options = _options(is_own=True, hosts=_loopback_names(), logs_requests=False)
    from clew.server.http.uvicorn_server import listen, make_server, url_of

    listener = listen("127.0.0.1", port or PORT, tries=1 if port else NEXT_PORTS)
    application = _application(plane.settings, options)
    url = url_of(listener)
    click.echo(f"clew is up at {url}")
    click.echo("your sessions and their transcripts; the API is at /docs; stop with Ctrl-C", err=True)
    capturing = -1 if no_capture else _start_capturing(plane.settings)
    if not no_browser and _has_display():
        import threading
        import webbrowser

        threading.Timer(0.5, webbrowser.open, [url]).start()
    try:
        make_server(application).run(sockets=[listener])
    finally:
        if capturing >= 0:
            os.close(capturing)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=PORT, show_default=True)
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes side by side.")
@click.option(
    "--public-url", default="", metavar="URL", help="The address that others use, such as https://clew.example."
)
@click.option(
    "--proxies", default="", metavar="ADDRESSES", help="Addresses of proxies whose X-Forwarded-* are believed."
)
@click.option("--max-body", type=click.IntRange(1, 1024), default=16, show_default=True, help="MiB a request may hold.")
@click.option("--rate", type=click.FloatRange(1, 1_000_000), default=500, show_default=True,
              help="Requests a second that one key may make.")  # fmt: skip
@click.option("--oidc-issuer", default="", metavar="URL", help="The OpenID provider that people log in with.")
@click.option("--oidc-client-id", default="", metavar="ID", help="What the provider calls this server.")
@click.option("--oidc-client-secret-file", type=click.Path(dir_okay=False), metavar="FILE",
              help="A file with the client's secret; CLEW_OIDC_CLIENT_SECRET is the other way to give it.")  # fmt: skip
@click.option("--oidc-domain", multiple=True, metavar="DOMAIN",
              help="People with an address of this domain need not be added first. [may be repeated]")  # fmt: skip
@click.option("--oidc-team-claim", default="", metavar="CLAIM", help="The claim that names teams, such as groups.")
@click.option("--fd", type=int, hidden=True, help="Serve on this socket, for the process that started this one.")
@click.option("--worker", type=int, hidden=True, help="The number of this process among several.")
@click.pass_obj
def serve(
    plane: Any, host: str, port: int, processes: int, public_url: str, proxies: str, max_body: int, rate: float,
    oidc_issuer: str, oidc_client_id: str, oidc_client_secret_file: str | None, oidc_domain: tuple[str, ...],
    oidc_team_claim: str, fd: int | None, worker: int | None,
) -> None:  # fmt: skip
    """Serve a team over HTTP: API keys and logins, behind a proxy that speaks TLS.

    Prints a link for the first owner when nobody has come in yet. SQLite serves one process, PostgreSQL any number.
    """
    public_name = _name_in(public_url)
    from clew.server.login.oidc_options import oidc_options, warning

    oidc = oidc_options(
        public_url, issuer=oidc_issuer, client_id=oidc_client_id, secret_file=oidc_client_secret_file,
        domains=oidc_domain, team_claim=oidc_team_claim,
    )  # fmt: skip
    options = _options(
        public_url=public_url.rstrip("/"), hosts=(*_loopback_names(), public_name) if public_name else (),
        most_bytes=max_body * 1024 * 1024, rate=rate, burst=2 * rate, traces=bool(os.environ.get("CLEW_TRACES")),
        oidc=oidc, worker=worker,
    )  # fmt: skip
    _check_processes(plane.settings, processes)
    from clew.server.http.uvicorn_server import listen, make_server, url_of

    if fd is not None:
        make_server(_application(plane.settings, options), proxies=proxies).run(sockets=[socket.socket(fileno=fd)])
        return
    listener = listen(host, port)
    url = options.public_url or url_of(listener)
    click.echo(f"clew serves {url}")
    if oidc is not None and (problem := warning(oidc)):
        click.echo(f"nobody can log in with the provider yet: {problem}", err=True)
    if processes == 1:
        application = _application(plane.settings, options)
        _show_owner_link(application.authenticator, url)
        make_server(application, proxies=proxies).run(sockets=[listener])
    else:
        _supervise(plane.settings, listener, processes, url)


@click.command(hidden=True)
@click.pass_obj
def watch(plane: Any) -> None:
    """Capture what agent programs do, until standard input ends."""
    import threading

    from watchfiles import watch as changes

    from clew.cli.remotes import flowing
    from clew.runtimes import runtimes
    from clew.service.capture.discovery import home_of

    ended = threading.Event()

    def wait_for_end_of_input() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    folders = [str(home) for runtime in runtimes() if runtime.home and (home := home_of(runtime, "")).exists()]
    with flowing(plane):
        failures = _capture(plane, [])
        if folders:
            for _ in changes(*folders, debounce=400, step=100, stop_event=ended, raise_interrupt=False):
                failures = _capture(plane, failures)


def _capture(plane: Any, known_failures: list[str]) -> list[str]:
    """Capture what is new and update the views; print failures that are not known yet, and return all of them."""
    from clew.cli import background

    def update_views(_: list[Any]) -> None:
        while plane.call("views_step").left:
            pass

    failures = [background.describe(failure) for failure in background.capture(plane, "", update_views)]
    for text in failures:
        if text not in known_failures:
            click.echo(f"capture: {plain(text)}", err=True)
    return failures


# Serving --------------------------------------------------------------------------------------------------------------


def _name_in(public_url: str) -> str:
    """The host name in the public URL; empty without one."""
    parts = urlsplit(public_url)
    if public_url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/")):
        raise InvalidInput(
            f"{public_url!r} is not a valid address; expected one such as https://clew.example, without a path"
        )
    return (parts.hostname or "").lower()


def _supervise(chosen: app.Settings, listener: socket.socket, processes: int, url: str) -> None:
    """Run several processes that serve with the options of this one."""
    from clew.server.http.supervisor import Supervisor

    authenticator = app.authenticator(chosen)
    _show_owner_link(authenticator, url)
    authenticator.close()
    # The store is passed in the environment: everybody on the machine can read the arguments of a process.
    os.environ["CLEW_STORE"], os.environ["CLEW_HOME"] = chosen.store, str(chosen.home)
    command = [sys.executable, "-m", "clew", "serve", *_options_given(click.get_current_context())]
    Supervisor(command, listener, processes, lambda text: click.echo(text, err=True)).run()


def _options_given(context: click.Context) -> list[str]:
    """The options on the command line, but for those that say where to listen."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        is_given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if is_given and name not in ("host", "port", "processes"):
            values = context.params[name] if option.multiple else [context.params[name]]
            words += [word for value in values for word in (option.opts[0], str(value))]
    return words


def _options(**values: Any) -> "Options":
    try:
        import uvicorn  # noqa: F401

        from clew.server.options import Options
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{error.name} is not installed; install clew with its server: clew[server]") from None
    return Options(**values)


def _loopback_names() -> tuple[str, ...]:
    from clew.server.options import LOOPBACK_NAMES

    return LOOPBACK_NAMES


def _application(chosen: app.Settings, options: "Options") -> "Application":
    from clew.server.http.application import Application

    return Application(app.authenticator(chosen), options, mcp=lambda contexts: _mcp(contexts, options))


def _mcp(contexts: Any, options: "Options") -> Any:
    """The application at /mcp; loaded at the first request for it, because it takes two seconds."""
    from clew.mcp.server import http_app

    origins = [options.public_url] if options.public_url else []
    return http_app(contexts, hosts=options.hosts or _loopback_names(), origins=origins)


def _check_processes(chosen: app.Settings, processes: int) -> None:
    if processes > 1 and not chosen.store.startswith(("postgresql:", "postgres:")):
        raise InvalidInput(
            "SQLite serves one process: several would not see each other's commits in time, and its files are on one "
            "machine; name a PostgreSQL store (CLEW_STORE=postgresql://...), or leave out --processes"
        )


def _show_owner_link(authenticator: "Authenticator", url: str) -> None:
    link = authenticator.owner_link(url)
    if link:
        click.echo("nobody has come in yet; whoever opens this link first is the owner (good once, for a day):")
        click.echo(f"  {link}")


def _start_capturing(chosen: app.Settings) -> int:
    """Start `clew watch` in a process of its own; it ends when the pipe that this returns is closed."""
    import subprocess

    settings = {"CLEW_HOME": str(chosen.home), "CLEW_STORE": chosen.store, "CLEW_PRINCIPAL": chosen.principal}
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", "watch"], env={**os.environ, **settings}, stdin=reading,
        stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    process.returncode = 0  # Nobody waits for it; without this, Popen would warn that it still runs.
    os.close(reading)
    return writing


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
