"""`clew scan`: where secrets are."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from clew.cli.options import SessionId, complete_id, json_option
from clew.cli.output import print_json
from clew.cli.progress import progress


@click.command("scan")
@click.argument("session", metavar="[ID]", required=False, type=SessionId(), shell_complete=complete_id)
@click.option("--project", default="", metavar="NAME", help="Only this project.")
@json_option
@click.pass_obj
def command(plane: Any, session: str | None, project: str, as_json: bool) -> None:
    """Scan a session, a project or all sessions for secrets. Shows where they are, never the secret."""
    _scan(plane, session, project, as_json=as_json)


def _scan(plane: Any, session: str | None, project: str, *, as_json: bool) -> None:
    secrets: list[Any] = []
    rules = Counter[str]()
    events = size = 0
    for portion in _scanned(plane, session, project, shown=not as_json):
        secrets += portion.found
        rules.update(portion.rules)
        events, size = events + portion.events, size + portion.bytes
        if as_json:
            print_json(portion.found)
    sessions = len({secret.session for secret in secrets})
    total = {
        "total": True, "secrets": rules.total(), "rules": dict(rules.most_common()), "sessions": sessions,
        "events": events, "bytes": size,
    }  # fmt: skip
    if as_json:
        print_json(total)
        return
    from clew.cli.results.secrets import print_secrets

    print_secrets(secrets, total)


def _scanned(plane: Any, session: str | None, project: str, *, shown: bool) -> Iterator[Any]:
    """The results of each portion of the log."""
    with progress("scanning for secrets", shown=shown) as on_progress:
        end = 0
        if on_progress is not None:
            end = plane.call("show", session=session).session.head if session else plane.client.last_position()
        for portion in _portions(plane, session, project):
            if on_progress is not None:
                on_progress(portion.next or end, end)
            yield portion


def _portions(plane: Any, session: str | None, project: str) -> Iterator[Any]:
    after: int | None = 0
    while after is not None:
        portion = plane.call("scan", session=session, project=project, after=after)
        after = portion.next
        yield portion
