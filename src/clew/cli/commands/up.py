"""`clew up`: the pages and the API for one person on their own machine."""

import sys
from typing import Any

import click

from clew import app
from clew.cli import running
from clew.cli.browser import open_browser
from clew.cli.first_run import first_capture
from clew.cli.http_server import PORT, loopback_names, make_application, serve_supervised, server_options, supervise
from clew.cli.worker_process import worker_beside

# How many ports after the first one are tried.
NEXT_PORTS = 20


@click.command("up")
@click.option("--port", type=click.IntRange(1, 65535), help=f"[default: {PORT}, or the next free one]")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.option("--no-capture", is_flag=True, help="Do not capture new events of agent programs meanwhile.")
@click.option("--background", is_flag=True, help="Leave it running and return; `clew down` stops it.")
@click.option("--fd", type=int, hidden=True, help="Serve on this socket, for the process that started this one.")
@click.pass_obj
def command(
    plane: Any, port: int | None, no_browser: bool, no_capture: bool, background: bool, fd: int | None
) -> None:  # fmt: skip
    """Show your sessions in a browser and capture new ones, for you alone on this machine.

    Listens on 127.0.0.1 only, and serves the browser that opens its link. It rejects programs of other accounts on the
    machine and requests from pages of other sites.
    """
    options = server_options(hosts=loopback_names(), logs_requests=False)
    from clew.server.http.listener import listen, url_of
    from clew.server.login.own_secret import own_secret

    home = plane.settings.home
    secret = own_secret(home)
    if fd is not None:
        serve_supervised(make_application(plane.settings, options._replace(own_secret=secret)), fd)
        return

    if (server := running.running_server(home)) is not None:
        click.echo(f"clew runs already at {server.url}")
        click.echo(f"open {server.link} in your browser; stop it with: clew down")
        return
    if not no_capture and (background or sys.stderr.isatty()):
        first_capture(plane)
    if background:
        words = [*(("--port", str(port)) if port else ()), *(("--no-capture",) if no_capture else ())]
        server = running.start(plane.settings, *words)
        click.echo(f"clew is up at {server.url}, in the background")
        click.echo(f"open {server.link} in your browser; the link is for you alone")
        click.echo("stop it with: clew down")
        return
    listener = listen("127.0.0.1", port or PORT, tries=1 if port else NEXT_PORTS)
    app.authenticator(plane.settings).close()  # A store that cannot be opened is an error here, and not in the server.
    url = url_of(listener)
    link = f"{url}/login#{secret}"
    click.echo(f"clew is up at {url}")
    click.echo(f"open {link} in your browser; the link is for you alone")
    click.echo("your sessions and their transcripts; the API is at /docs; stop with Ctrl-C", err=True)
    if not no_browser:
        open_browser(home, link)
    with (
        running.announced(home, url, link),
        worker_beside(plane.settings, "--no-checkpoints", *(() if no_capture else ("--capture",))),
    ):
        supervise(plane.settings, ["up"], listener)
