"""The first run: capture what is on this machine, print a summary, and offer to connect programs and to start at login.

The offers are made once, and only on a terminal.
"""

import sys
from pathlib import Path
from typing import Any

import click

from clew.cli import capturing, store_summary
from clew.model.errors import ClewError, Unavailable
from clew.model.plain import plain

# This file says that the offers were made.
OFFERED = "offered"


def first_capture(plane: Any) -> None:
    """Capture what is new and print a summary; clew starts even if that fails."""
    try:
        capturing.capture(plane, [], "", "", as_json=False)
        store_summary.print_summary(plane)
        _offer(plane)
    except Unavailable:
        raise  # Nothing else would work either, and the reason is told once.
    except ClewError as error:
        click.echo(f"capture: {plain(str(error))}", err=True)


def _offer(plane: Any) -> None:
    home: Path = plane.settings.home
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or (home / OFFERED).exists():
        return
    (home / OFFERED).touch(mode=0o600)
    for program in plane.call("runtimes"):
        if program.installed and program.connected is False:
            _offer_to_connect(plane, program)
    if plane.settings.store.startswith("sqlite:///"):
        from clew.cli.commands import service

        if click.confirm("Start clew whenever you log in?", default=False, err=True):
            click.get_current_context().invoke(service.install, yes=True, as_json=False)


def _offer_to_connect(plane: Any, program: Any) -> None:
    question = f"Connect {program.title}, so that its sessions are captured as they grow?"
    if not click.confirm(question, default=False, err=True):
        return
    from clew.cli.connecting import edit

    edit(plane, "connect", program.name, dry_run=False, yes=True, as_json=False)
