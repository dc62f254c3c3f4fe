"""`clew demo`: the dashboard on a made-up store, for whoever has no sessions yet."""

import os
import tempfile
from pathlib import Path

import click

from clew import app
from clew.cli.browser import open_browser
from clew.cli.http_server import PORT, server_options, supervise

PERSON = "person:ada"
NEXT_PORTS = 20


@click.command("demo")
@click.option("--port", type=click.IntRange(1, 65535), help=f"[default: {PORT}, or the next free one]")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
def command(port: int | None, no_browser: bool) -> None:
    """Show the dashboard on a made-up store: a team of three, seven programs, three weeks.

    The store is in a temporary folder, which is removed at the end. Your own sessions are not touched.
    """
    server_options()
    from clew.server.http.listener import listen, url_of
    from clew.server.login.own_secret import own_secret

    with tempfile.TemporaryDirectory(prefix="clew-demo-") as home:
        # The objects of the demo go into its folder, wherever those of the person are.
        os.environ.pop("CLEW_OBJECTS", None)
        settings = app.settings(store=f"sqlite:///{Path(home) / 'clew.db'}", home=home, principal=PERSON)
        _fill(settings)
        listener = listen("127.0.0.1", port or PORT, tries=1 if port else NEXT_PORTS)
        url = url_of(listener)
        link = f"{url}/login#{own_secret(settings.home)}"
        click.echo(f"the demo is up at {url}")
        click.echo(f"open {link} in your browser")
        click.echo("nothing of yours is in it; stop with Ctrl-C", err=True)
        if not no_browser:
            open_browser(settings.home, link)
        supervise(settings, ["up"], listener)


def _fill(settings: app.Settings) -> None:
    from clew.cli.demo_store import fill

    authenticator = app.authenticator(settings)
    try:
        fill(authenticator.owner_context())
    finally:
        authenticator.close()
