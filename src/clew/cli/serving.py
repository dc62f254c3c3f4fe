"""`clew up` for one person on their own machine, and `clew serve` for a team."""

import os
import sys
from typing import TYPE_CHECKING, Any

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


def commands() -> list[click.Command]:
    """All of them."""
    return [up, serve, watch]


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
    from clew.server.http.uvicorn_server import address, listen, server

    made = listen("127.0.0.1", port or PORT, tries=1 if port else NEXT_PORTS)
    application = _application(plane.settings, options)
    place = address(made)
    click.echo(f"clew is up at {place}")
    click.echo("your sessions and their transcripts; the API is at /docs; stop with Ctrl-C", err=True)
    watching = -1 if no_capture else _start_watching(plane.settings)
    if not no_browser and _has_display():
        import threading
        import webbrowser

        threading.Timer(0.5, webbrowser.open, [place]).start()
    try:
        server(application).run(sockets=[made])
    finally:
        if watching >= 0:
            os.close(watching)


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
@click.option("--fd", type=int, hidden=True)
@click.pass_obj
def serve(
    plane: Any, host: str, port: int, processes: int, public_url: str, proxies: str, max_body: int, rate: float,
    oidc_issuer: str, oidc_client_id: str, oidc_client_secret_file: str | None, oidc_domain: tuple[str, ...],
    oidc_team_claim: str, fd: int | None,
) -> None:  # fmt: skip
    """Serve a team over HTTP: API keys and logins, behind a proxy that speaks TLS.

    Prints a link for the first owner when nobody has come in yet. SQLite serves one process, PostgreSQL any number.
    """
    from urllib.parse import urlsplit

    parts = urlsplit(public_url)
    if public_url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/")):
        raise InvalidInput(f"{public_url!r} is no address such as https://clew.example, without a path")
    names = (*_loopback_names(), parts.hostname.lower()) if parts.hostname else ()
    from clew.server.login.oidc_options import oidc_options, warning

    oidc = oidc_options(
        public_url, issuer=oidc_issuer, client_id=oidc_client_id, secret_file=oidc_client_secret_file,
        domains=oidc_domain, team_claim=oidc_team_claim,
    )  # fmt: skip
    options = _options(
        public_url=public_url.rstrip("/"), hosts=names, most_bytes=max_body * 1024 * 1024, rate=rate, burst=2 * rate,
        traces=bool(os.environ.get("CLEW_TRACES")), oidc=oidc,
    )  # fmt: skip
    _check(plane.settings, processes)
    from clew.server.http.uvicorn_server import Processes, address, listen, server

    if fd is not None:
        import socket

        server(_application(plane.settings, options), proxies=proxies).run(sockets=[socket.socket(fileno=fd)])
        return
    made = listen(host, port)
    click.echo(f"clew serves {options.public_url or address(made)}")
    if oidc is not None and (problem := warning(oidc)):
        click.echo(f"nobody can log in with the provider yet: {problem}", err=True)
    if processes == 1:
        application = _application(plane.settings, options)
        _show_owner_link(application.door, options.public_url or address(made))
        server(application, proxies=proxies).run(sockets=[made])
        return
    door = app.door(plane.settings)
    _show_owner_link(door, options.public_url or address(made))
    door.close()
    # The store by the environment and not as an argument, which everybody on the machine can read.
    os.environ["CLEW_STORE"], os.environ["CLEW_HOME"] = plane.settings.store, str(plane.settings.home)
    command = [
        sys.executable, "-m", "clew", "serve", "--public-url", public_url, "--proxies", proxies, "--max-body",
        str(max_body), "--rate", str(rate), "--oidc-issuer", oidc_issuer, "--oidc-client-id", oidc_client_id,
        *(["--oidc-client-secret-file", oidc_client_secret_file] if oidc_client_secret_file else []),
        *(word for domain in oidc_domain for word in ("--oidc-domain", domain)),
        "--oidc-team-claim", oidc_team_claim, "--fd",
    ]  # fmt: skip
    Processes(command, made, processes, lambda text: click.echo(text, err=True)).run()


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

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    there = [str(home) for one in runtimes() if one.home and (home := home_of(one, "")).exists()]
    with flowing(plane):
        failed = _capture(plane, [])
        if there:
            for _ in changes(*there, debounce=400, step=100, stop_event=ended, raise_interrupt=False):
                failed = _capture(plane, failed)


def _capture(plane: Any, before: list[str]) -> list[str]:
    """Capture what is new and take it into the views; says what fails, unless it did so before, and returns it."""
    from clew.cli import background

    def take_in(_: list[Any]) -> None:
        while plane.call("views_step").left:
            pass

    failed = [background.told(one) for one in background.capture(plane, "", take_in)]
    for text in failed:
        if text not in before:
            click.echo(f"capture: {plain(text)}", err=True)
    return failed


# Parts ----------------------------------------------------------------------------------------------------------------


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

    return Application(app.door(chosen), options, mcp=lambda contexts: _mcp(contexts, options))


def _mcp(contexts: Any, options: "Options") -> Any:
    """What is at /mcp; loaded when it is first asked for."""
    from clew.mcp.server import http_app

    origins = [options.public_url] if options.public_url else []
    return http_app(contexts, hosts=options.hosts or _loopback_names(), origins=origins)


def _check(chosen: app.Settings, processes: int) -> None:
    if processes > 1 and not chosen.store.startswith(("postgresql:", "postgres:")):
        raise InvalidInput(
            "SQLite serves one process: several would not see each other's commits in time, and its files are on one "
            "machine; name a PostgreSQL store (CLEW_STORE=postgresql://...), or leave out --processes"
        )


def _show_owner_link(door: "Authenticator", place: str) -> None:
    link = door.owner_link(place)
    if link:
        click.echo("nobody has come in yet; whoever opens this link first is the owner (good once, for a day):")
        click.echo(f"  {link}")


def _start_watching(chosen: app.Settings) -> int:
    """Start capturing beside; returns the pipe that keeps it going."""
    import subprocess

    settings = {"CLEW_HOME": str(chosen.home), "CLEW_STORE": chosen.store, "CLEW_PRINCIPAL": chosen.principal}
    reading, writing = os.pipe()
    watcher = subprocess.Popen(
        [sys.executable, "-m", "clew", "watch"], env={**os.environ, **settings}, stdin=reading,
        stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    watcher.returncode = 0  # It ends by itself when the pipe does.
    os.close(reading)
    return writing


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
