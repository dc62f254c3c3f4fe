"""Help pages: the commands in sections, each with the first clause of its help, never cut.

A terminal has at least 80 columns for this; a narrower one wraps. A test holds that every command is in one section.
"""

import re

import click

WIDEST = 120

SECTIONS = {
    "Everyday": "up down demo capture sessions show overview tail usage project runtimes connect disconnect doctor "
    "service",
    "Go on": "resume undo fork workspace brief diff export import",
    "Find": "search files blame commit artifacts artifact activity",
    "Order": "title tag tags star note view",
    "Knowledge": "recall remember decide progress retire reverse scratch",
    "Team": "serve remote push pull share link privacy access principal team key agent agents whoami setting mcp",
    "Audit": "audit verify scan",
    "Store": "open append head object pause close archive budget lease erase retention collect rebuild migrate jobs "
    "worker completion",
}

# Other names of commands, for people who know them from other programs.
ALIASES = {"ls": "sessions", "list": "sessions", "log": "show"}

# What is in parentheses belongs to the clause.
_CLAUSE = re.compile(r"((?:\([^)]*\)|.)*?)(?:[.;:](?:\s|$)|$)")


def summary(command: click.Command) -> str:
    """What a command does: the first clause of its help."""
    words = " ".join((command.help or "").split("\n\n", 1)[0].split())
    found = _CLAUSE.match(words)
    return found[1] if found else words


class Summaries(click.Group):
    """A command with subcommands; its help shows the whole summary of each."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = _visible(self, ctx)
        write_section(formatter, "Commands", [(name, summary(command)) for name, command in commands.items()])


class Sections(Summaries):
    """The program itself: its commands are many, so they are shown in sections."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = _visible(self, ctx)
        for title, names in SECTIONS.items():
            rows = [(name, summary(commands.pop(name))) for name in names.split() if name in commands]
            write_section(formatter, title, rows)
        write_section(formatter, "More", [(name, summary(command)) for name, command in commands.items()])


def write_section(formatter: click.HelpFormatter, title: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _visible(group: click.Group, ctx: click.Context) -> dict[str, click.Command]:
    commands = ((name, group.get_command(ctx, name)) for name in group.list_commands(ctx))
    return {name: command for name, command in commands if command is not None and not command.hidden}
