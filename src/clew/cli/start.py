"""`clew` alone: the sessions of this folder to go on with, show or fork; without a terminal, their list."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from clew import app
from clew.cli import upkeep
from clew.cli.here import here
from clew.cli.hints import hint_for
from clew.cli.output import one_line
from clew.cli.results.usage import NEARLY, budget_line
from clew.model.errors import ClewError
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.cli.session_choices import SessionChoices

GO_ON, GO_ON_IN, SHOW, FORK = "enter", "c", "s", "f"
KEYS = {GO_ON: "go on", GO_ON_IN: "in another program", SHOW: "show", FORK: "fork"}


def start(plane: Any) -> None:
    """Offer the sessions; the first time, capture what is on this machine before."""
    if not _is_terminal():
        _print_list(plane)
        return
    if not app.is_remote(plane.settings.store) and not plane.call("sessions", limit=1, empty=True):
        from clew.cli.first_run import first_capture

        first_capture(plane)
    upkeep.catch_up(plane)
    from clew.cli.session_choices import SessionChoices

    choices = SessionChoices(plane, here())
    if not len(choices):
        click.echo("no sessions yet; `clew runtimes` shows where clew looks for those of your agent programs", err=True)
        return
    _offer(plane, choices)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _print_list(plane: Any) -> None:
    upkeep.catch_up(plane)
    folder = here()
    filters = {"folder": folder} if folder else {}
    lines = plane.call("sessions", **filters) if folder else []
    if lines:
        click.echo(f"sessions of {folder}; those of all folders: clew sessions", err=True)
    else:
        filters = {}
    from clew.cli.results.sessions import print_sessions_count

    print_sessions_count(plane, lines or plane.call("sessions"), filters)
    if warning := _budget_warning(plane):
        click.secho(warning, fg="yellow", err=True)


def _budget_warning(plane: Any) -> str:
    """The budget of a day, week or month that is nearly used or over, if there is one."""
    if not any(setting.name.startswith("budget_") for setting in plane.call("setting_list")):
        return ""
    budgets = [budget for budget in plane.call("usage", when="today").budgets if budget.budget_used >= NEARLY]
    return plain(budget_line(max(budgets, key=lambda budget: budget.budget_used))) if budgets else ""


def _offer(plane: Any, choices: "SessionChoices") -> None:
    from clew.cli import picker

    capture = _Capture(plane, choices)
    message = _budget_warning(plane)
    while True:
        key = picker.pick(choices, KEYS, work=capture.run, message=message)
        session = choices.chosen
        message = ""
        if key == picker.LEAVE or session is None:
            return
        try:
            if key == GO_ON:
                _resume(session.id)
                return
            if key == GO_ON_IN:
                runtime = _other_program(plane, session.runtime)
                if runtime:
                    _resume(session.id, runtime=runtime)
                    return
            elif key == SHOW:
                _show(plane, session.id)
            else:
                fork = plane.call("fork", session=session.id)
                message = f"forked as {fork.id[:10]} {one_line(fork.title or '(untitled)', 60)}"
                choices.reload(fork.id)
        except ClewError as error:
            hint = hint_for(error)
            message = f"error: {error}" + (f"; {hint}" if hint else "")


class _Capture:
    """Captures what programs have written since the last capture, while the list is shown; then the list is new."""

    def __init__(self, plane: Any, choices: "SessionChoices") -> None:
        self._settings = plane.settings
        self._choices = choices
        self._is_done = app.is_remote(plane.settings.store)

    async def run(self, redraw: Callable[[], None]) -> None:
        if self._is_done:
            return
        settings = self._settings
        # The environment carries the store: every account on the machine can read the arguments of a process.
        own = {"CLEW_HOME": str(settings.home), "CLEW_STORE": settings.store, "CLEW_PRINCIPAL": settings.principal}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "clew", "capture", env={**os.environ, **own}, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            await process.wait()
        finally:
            # Whoever leaves does not wait: what is captured is stored, and the next capture takes in the rest.
            if process.returncode is None:
                process.terminate()
        self._is_done = True
        self._choices.reload()
        redraw()


def _resume(session: str, **options: str) -> None:
    from clew.cli.commands.resume import command

    click.get_current_context().invoke(command, session=session, **options)


def _show(plane: Any, session: str) -> None:
    from clew.cli import showing

    if not showing.show(plane, session, showing.Wanted(), paged=True):
        click.echo("\npress Enter to go back to the list", nl=False, err=True)
        sys.stdin.readline()


def _other_program(plane: Any, own: str) -> str:
    """The program that the person picks; empty for none."""
    from clew.cli import picker
    from clew.cli.program_choices import ProgramChoices

    choices = ProgramChoices(plane.call("runtimes"), own)
    if picker.pick(choices, {"enter": "go on in it"}) == picker.LEAVE:
        return ""
    return choices.chosen
