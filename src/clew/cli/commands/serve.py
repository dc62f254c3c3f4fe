"""`clew serve`: the pages and the API for a team."""

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from clew import app
from clew.cli.http_server import (
    PORT,
    loopback_names,
    make_application,
    serve_supervised,
    server_options,
    supervise,
)
from clew.cli.worker_process import worker_beside
from clew.model.errors import InvalidInput

if TYPE_CHECKING:
    from clew.service.access.authenticator import Authenticator


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=PORT, show_default=True)
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="How many processes serve.")
@click.option(
    "--public-url", default="", metavar="URL", help="The address that users open, such as https://clew.example."
)
@click.option(
    "--proxies", default="", metavar="ADDRESSES", help="Addresses of proxies whose X-Forwarded-* headers clew trusts."
)
@click.option(
    "--max-body", type=click.IntRange(1, 1024), default=16, show_default=True, help="The largest request, in MiB."
)
@click.option("--rate", type=click.FloatRange(1, 1_000_000), default=500, show_default=True,
              help="How many requests one key may make per second.")  # fmt: skip
@click.option("--oidc-issuer", default="", metavar="URL", help="The OpenID provider that people log in with.")
@click.option("--oidc-client-id", default="", metavar="ID", help="The client ID of this server at the provider.")
@click.option("--oidc-client-secret-file", type=click.Path(dir_okay=False), metavar="FILE",
              help="A file with the client's secret; CLEW_OIDC_CLIENT_SECRET is the other way to give it.")  # fmt: skip
@click.option("--oidc-domain", multiple=True, metavar="DOMAIN",
              help="People with an address of this domain can log in without being added. [repeatable]")  # fmt: skip
@click.option("--oidc-team-claim", default="", metavar="CLAIM", help="The claim that names teams, such as groups.")
@click.option("--fd", type=int, hidden=True, help="Serve on this socket, for the process that started this one.")
@click.option("--worker", type=int, hidden=True, help="The number of this process among several.")
@click.pass_obj
def command(
    plane: Any, host: str, port: int, processes: int, public_url: str, proxies: str, max_body: int, rate: float,
    oidc_issuer: str, oidc_client_id: str, oidc_client_secret_file: str | None, oidc_domain: tuple[str, ...],
    oidc_team_claim: str, fd: int | None, worker: int | None,
) -> None:  # fmt: skip
    """Serve a team over HTTP, with API keys and logins, behind a proxy that speaks TLS.

    Prints a link for the first owner if nobody has logged in yet. SQLite allows one process, PostgreSQL any number.
    """
    public_name = _name_in(public_url)
    from clew.server.login.oidc_options import oidc_options, warning

    oidc = oidc_options(
        public_url, issuer=oidc_issuer, client_id=oidc_client_id, secret_file=oidc_client_secret_file,
        domains=oidc_domain, team_claim=oidc_team_claim,
    )  # fmt: skip
    options = server_options(
        public_url=public_url.rstrip("/"), hosts=(*loopback_names(), public_name) if public_name else (),
        most_bytes=max_body * 1024 * 1024, rate=rate, burst=2 * rate, traces=bool(os.environ.get("CLEW_TRACES")),
        oidc=oidc, worker=worker,
    )  # fmt: skip
    _check_processes(plane.settings, processes)
    if fd is not None:
        serve_supervised(make_application(plane.settings, options), fd, proxies=proxies)
        return
    from clew.server.http.listener import CLOSING_SECONDS, listen, url_of

    listener = listen(host, port, patience=CLOSING_SECONDS)
    url = options.public_url or url_of(listener)
    click.echo(f"clew serves {url}")
    if oidc is not None and (problem := warning(oidc)):
        click.echo(f"nobody can log in through the provider yet: {problem}", err=True)
    authenticator = app.authenticator(plane.settings)
    _show_owner_link(authenticator, url)
    authenticator.close()
    words = ["serve", *_options_given(click.get_current_context())]
    with worker_beside(plane.settings, "--json"):
        supervise(plane.settings, words, listener, processes)


def _name_in(public_url: str) -> str:
    """The host name in the public URL; empty without one."""
    parts = urlsplit(public_url)
    if public_url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/")):
        raise InvalidInput(
            f"{public_url!r} is not a valid address; expected one such as https://clew.example, without a path"
        )
    return (parts.hostname or "").lower()


def _options_given(context: click.Context) -> list[str]:
    """The options of this command line, except where to listen and how many processes."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        is_given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if is_given and name not in ("host", "port", "processes"):
            values = context.params[name] if option.multiple else [context.params[name]]
            words += [word for value in values for word in (option.opts[0], str(value))]
    return words


def _check_processes(settings: app.Settings, processes: int) -> None:
    if processes > 1 and not settings.store.startswith(("postgresql:", "postgres:")):
        raise InvalidInput(
            "SQLite serves one process: several would not see each other's commits in time, and its files are on one "
            "machine; name a PostgreSQL store (CLEW_STORE=postgresql://...), or leave out --processes"
        )


def _show_owner_link(authenticator: "Authenticator", url: str) -> None:
    link = authenticator.owner_link(url)
    if link:
        click.echo("nobody has logged in yet; the first person to open this link is the owner (good once, for a day):")
        click.echo(f"  {link}")
