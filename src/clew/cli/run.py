"""The commands: made from the operations' declarations, or written by hand (commands/) where that is not enough."""

import io
import keyword
import os
import re
import sys
from functools import cache
from importlib import import_module
from typing import Any

import click

from clew import app
from clew.cli import upkeep
from clew.cli.confirming import confirm
from clew.cli.exits import exit_code
from clew.cli.help import ALIASES, WIDEST, Sections, Summaries
from clew.cli.options import TouchedPath
from clew.cli.output import print_error, print_result
from clew.cli.plane import LazyPlane
from clew.cli.progress import progress
from clew.model.errors import ClewError, InvalidInput
from clew.model.plain import plain
from clew.service.kernel.registry import Operation, find, load


@cache
def written_by_hand() -> list[str]:
    """The names of the commands that have a file in commands/."""
    files = os.listdir(os.path.join(os.path.dirname(__file__), "commands"))
    return sorted(file.removesuffix(".py").rstrip("_") for file in files if file.endswith(".py") and file[0] != "_")


def run() -> int:
    """Run the command line; returns the exit code."""
    as_json = "--json" in sys.argv[1:]
    try:
        # Commands return nothing; click returns the code of a command that raised Exit.
        code = clew.main(prog_name="clew", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except ClewError as error:
        print_error(error, as_json=as_json)
        return exit_code(error.code)
    except click.Abort:
        click.echo("stopped", err=True)
        return 130
    except click.ClickException as error:
        hint = _hint(error)
        if as_json:
            print_error(InvalidInput(error.format_message() + (f" {hint}" if hint else "")), as_json=True)
        else:
            shown = io.StringIO()
            error.show(file=shown)
            # It repeats the arguments, and another program may have put stored text into these.
            click.echo(plain(shown.getvalue()), err=True, nl=False)
            if hint:
                click.echo(hint, err=True)
        return 2


def _hint(error: click.ClickException) -> str:
    """What the user may have meant."""
    if (
        isinstance(error, click.NoSuchOption)
        and error.ctx
        and any(param.name == "query" for param in error.ctx.command.params)
    ):
        return f"Put a word to exclude after --, as in: clew {error.ctx.command.name} lock -- -test"
    if (
        isinstance(error, click.UsageError)
        and error.ctx
        and "unexpected extra" in error.message
        and any(isinstance(param.type, TouchedPath) for param in error.ctx.command.params)
    ):
        return "Quote a pattern, so that the shell leaves it alone, as in: clew files 'src/*.py'"
    return ""


class Commands(Sections):
    """Makes a command when somebody asks for it, so that a run imports only what it needs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # `clew help show` is what `clew show --help` is.
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, *rest = args
        if name == "log" and (not rest or rest[0].startswith("-")):
            name = "sessions"
        try:
            return super().resolve_command(ctx, [name, *rest])
        except click.exceptions.NoSuchCommand as error:
            # Most commands are not made yet, so click does not know what is near.
            known = [command for command in self.list_commands(ctx) if _is_shown(self.get_command(ctx, command))]
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=[*known, *ALIASES], ctx=ctx
            ) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name in written_by_hand():
            self._add_written_by_hand(cmd_name)
        elif cmd_name not in self.commands:
            operation = find(cmd_name)
            if operation is not None and operation.group is None and not operation.hidden:
                return command(operation)
            self._add_operations()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        for name in written_by_hand():
            self._add_written_by_hand(name)
        self._add_operations()
        return super().list_commands(ctx)

    def _add_written_by_hand(self, name: str) -> None:
        if name not in self.commands:
            # The file of a name that Python reserves ends in an underscore, such as import_.py.
            file = f"{name}_" if keyword.iskeyword(name) else name
            self.add_command(import_module(f"clew.cli.commands.{file}").command)

    def _add_operations(self) -> None:
        """Add the commands of all operations, except those that are written by hand."""
        by_hand = set(written_by_hand())
        for operation in load().values():
            group = operation.group
            top = operation.name if group is None else group.name
            if operation.hidden or top in by_hand:
                continue
            if group is None:
                self.add_command(command(operation))
                continue
            if top not in self.commands:
                self.add_command(Summaries(top, help=group.help))
            parent = self.commands[top]
            if isinstance(parent, click.Group):
                parent.add_command(command(operation))


@click.group(
    cls=Commands, invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    epilog="An ID can be shortened, and `latest` is the newest session here. `clew COMMAND --help` has the details.",
)  # fmt: skip
@click.version_option(package_name="clew", prog_name="clew", message="%(prog)s %(version)s")
@click.option("--store", metavar="URL", help="sqlite:///path, postgresql://... or https://server [default: CLEW_STORE]")
@click.option("--home", metavar="DIR", help="The folder of the embedded store. [default: CLEW_HOME or ~/.clew]")
@click.pass_context
def clew(context: click.Context, store: str | None, home: str | None) -> None:
    """Keep the thread of every AI-agent session: durable, forkable, verifiable.

    Without a command: pick one of the sessions of this folder, and go on with it, show it or fork it.
    """
    context.obj = LazyPlane(app.settings(store=store, home=home))
    context.call_on_close(context.obj.close)
    if context.invoked_subcommand is None:
        from clew.cli.start import start

        start(context.obj)


def _is_shown(command: click.Command | None) -> bool:
    return command is not None and not command.hidden


def command(operation: Operation) -> click.Command:
    """The command for an operation: sessions and required values are arguments, the rest are options."""

    def invoke(as_json: bool, as_csv: bool = False, yes: bool = False, **values: Any) -> None:
        plane: LazyPlane = click.get_current_context().obj
        given = {name: value for name, value in values.items() if value not in (None, ())}
        if operation.warning and not (yes or given.get("dry_run")) and not _asked(plane, operation, given, as_json):
            return
        if operation.reads_views:
            upkeep.catch_up(plane)
        if isinstance(given.get("query"), tuple):
            given["query"] = " ".join(given["query"])
        with progress(operation.command, shown=not as_json) as on_progress:
            result = plane.call_reporting(on_progress, operation.name, **given)
        if as_csv and operation.rows is not None and not as_json:
            from clew.cli.results.csv_table import print_csv

            print_csv(operation.rows(result))
        elif operation.counted_by and not as_json:
            from clew.cli.results import printer

            print_counted: Any = printer(operation.counted_by)
            print_counted(plane, result, given)
        else:
            print_result(
                {"done": operation.name} if result is None and as_json else result, operation.name, as_json=as_json
            )
        if operation.finds_damage is not None and operation.finds_damage(result):
            raise click.exceptions.Exit(exit_code("damaged"))

    from clew.cli.parameters import JSON, parameter_of  # A command that is written by hand needs none of it.

    params = [*map(parameter_of, operation.parameters), JSON]
    if operation.warning:
        params.append(click.Option(["-y", "--yes"], is_flag=True, help="Do not ask."))
    if operation.rows is not None:
        params.append(click.Option(["--csv", "as_csv"], is_flag=True, help="Comma-separated values, one line per row."))
    has_query = any(parameter.name == "query" and not parameter.by_name for parameter in operation.parameters)
    made = QueryCommand if has_query else click.Command
    return made(operation.command, callback=invoke, help=operation.help, params=params)


# A word to exclude. Short options have one letter, and only -n takes a number right after it.
_EXCLUDED = re.compile(r"-(?!n\d+$)\w[^=]+")


class QueryCommand(click.Command):
    """A command with a query, in which `-word` is a word to exclude and not a heap of short options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        upto = args.index("--") if "--" in args else len(args)
        options = [argument for argument in args[:upto] if not _EXCLUDED.fullmatch(argument)]
        excluded = [argument for argument in args[:upto] if _EXCLUDED.fullmatch(argument)]
        return super().parse_args(ctx, [*options, "--", *excluded, *args[upto + 1 :]])


def _asked(plane: LazyPlane, operation: Operation, given: dict[str, Any], as_json: bool) -> bool:
    """Whether a person has seen what the operation would do, and wants it."""
    will_happen = operation.warning.format_map(given)
    if any(parameter.name == "dry_run" for parameter in operation.parameters):
        preview = plane.call(operation.name, **given, dry_run=True)
        print_result(preview, operation.name, as_json=as_json)
        if as_json or not preview or not sys.stdin.isatty():
            if preview:
                click.echo("nothing was changed; --yes does it", err=True)
            return False
    confirm(will_happen, yes=False, as_json=as_json)
    return True
