"""`clew scan` for people: where secrets are, never the secrets."""

from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import one_line, table
from clew.cli.results.counts import count

if TYPE_CHECKING:
    from clew.service.privacy.scan import Secret


def print_secrets(secrets: "list[Secret]", total: dict[str, Any]) -> None:
    if secrets:
        rows = (
            (secret.session[:10], str(secret.seq), secret.rule, str(secret.times), one_line(secret.context))
            for secret in secrets
        )
        table(("session", "seq", "rule", "times", "where"), rows)
        kinds = (f"{rule} {times:,}" for rule, times in total["rules"].items())
        click.echo(f"{count(total['secrets'], 'secret')} in {count(total['sessions'], 'session')}: {', '.join(kinds)}")
    result = "" if secrets else "no secrets: "
    click.echo(f"{result}{count(total['events'], 'event')} scanned, {total['bytes'] / 1e6:,.1f} MB", err=True)
