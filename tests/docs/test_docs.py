"""The pages say what the program does: examples are run again, tables equal the code, links lead somewhere."""

import importlib.util
import re
import shlex
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from clew.cli.exits import EXITS, exit_code
from clew.cli.run import clew
from clew.model.errors import ClewError
from clew.model.events import KINDS
from clew.model.session import LIFECYCLE
from clew.store.database.statements import FUNCTIONS, WORDS
from docs.pages import PAGES, ROOT, Replay, new_home, shape

FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
# What separates commands of a shell line, and what the shell itself does with one.
SEPARATORS = {"|", "||", "&&", ";", "&"}

pages = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


@cache
def text(page: Path) -> str:
    return page.read_text("utf-8")


def prose(page: Path) -> str:
    return FENCED.sub("", text(page))


def table(page: str, first_column: str) -> list[list[str]]:
    """The rows of the table whose first column has this title, the titles included."""
    lines = iter(text(ROOT / page).splitlines())
    title = next(line for line in lines if line.startswith(f"| {first_column} |"))
    next(lines)
    rows = [title]
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(line)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


# Examples -------------------------------------------------------------------------------------------------------------


# What runs until it is stopped is tried by tests/cli/test_first_run.py and tests/server/test_commands.py.
STAYS = {"docs/server.md"}
WITH_EXAMPLES = sorted(
    name for page in PAGES if re.search(r"^```(console|text)$", text(page), re.MULTILINE)
    and (name := str(page.relative_to(ROOT))) not in STAYS
)  # fmt: skip


def test_the_pages_whose_examples_are_run_are_known() -> None:
    """A page that stays away by mistake would be true without being tried."""
    assert {"README.md", *(f"docs/{name}.md" for name in "access audit cli finding python secrets sync".split())} <= {
        *WITH_EXAMPLES
    }


@pages
def test_a_block_that_shows_output_is_run(page: Path) -> None:
    """A block of another language is not run, so it may show commands and no output of theirs."""
    if str(page.relative_to(ROOT)) not in STAYS:
        for language, block in FENCED.findall(text(page)):
            assert language == "console" or "$ clew" not in block, block


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_the_examples_of_a_page_print_what_it_says(page: str) -> None:
    shown = text(ROOT / page)
    with new_home() as home:
        assert shape(Replay(home).page(shown)) == shape(shown)


def test_two_runs_have_one_shape_and_another_output_has_not() -> None:
    """The comparison can fail: it forgets ids and times, not words and numbers."""
    first = "$ clew show 0123456789\n0123456789abcdefghjk is active, 5 s ago, seq 3"
    assert shape(first) == shape(first.replace("0123456789", "9876543210").replace("5 s", "71 s"))
    for other in ("paused", "seq 4"):
        assert shape(first) != shape(first.replace("active" if other == "paused" else "seq 3", other))


# Commands -------------------------------------------------------------------------------------------------------------


def commands(page: Path) -> Iterator[list[str]]:
    """Every call of `clew` in the console and shell blocks of a page, as arguments."""
    for language, block in FENCED.findall(text(page)):
        if language not in ("console", "sh"):
            continue
        for line in block.splitlines():
            if language == "console" and not line.startswith("$ "):
                continue
            yield from calls(line.removeprefix("$ "))


def calls(line: str) -> Iterator[list[str]]:
    for inner in re.findall(r"\$\(([^)]*)\)", line):
        yield from calls(inner)
    lexer = shlex.shlex(line.split("<<")[0], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in SEPARATORS:
            words.append(word)
            continue
        if words and words[0] == "clew":
            yield words[1:]
        words = []


def check_command(arguments: list[str]) -> None:
    """Parse the arguments as the command line would, without running anything."""
    command: click.Command = clew
    while isinstance(command, click.Group):
        context = click.Context(command, info_name="clew")
        rest = command.make_parser(context).parse_args(args=list(arguments))[1]
        if not rest:
            return
        name, found, arguments = command.resolve_command(context, rest)
        assert found is not None, f"no command {name}"
        command = found
    parameters = command.make_parser(click.Context(command)).parse_args(args=list(arguments))[0]
    for parameter in command.params:
        given = parameters.get(parameter.name or "")
        assert given not in (None, ()) or not parameter.required, f"{command.name} needs {parameter.name}"


@pages
def test_every_command_exists_with_its_options(page: Path) -> None:
    for arguments in commands(page):
        try:
            check_command(arguments)
        except click.UsageError as error:
            pytest.fail(f"clew {shlex.join(arguments)}: {error.format_message()}")


@pages
def test_every_command_in_running_text_exists(page: Path) -> None:
    for code in CODE.findall(prose(page)):
        words = code.split()
        if words[0] == "clew" and len(words) > 1 and words[1].islower() and not words[1].startswith("-"):
            command = clew.get_command(click.Context(clew), words[1])
            assert command is not None, code
            if isinstance(command, click.Group) and len(words) > 2:
                assert command.get_command(click.Context(command), words[2]) is not None, code


def test_every_command_has_a_section() -> None:
    titles = " ".join(line for line in text(ROOT / "docs/cli.md").splitlines() if line.startswith("### clew"))
    words = set(re.findall(r"\w+", titles))
    names = clew.list_commands(click.Context(clew))
    assert {"open", "capture", "lease"} <= {*names}
    for name, command in clew.commands.items():
        below = command.commands if isinstance(command, click.Group) else {}
        assert command.hidden or ({name, *below} - {"completion"}) <= words


# Tables ---------------------------------------------------------------------------------------------------------------


def all_errors(root: type[ClewError] = ClewError) -> Iterator[type[ClewError]]:
    for error in root.__subclasses__():
        yield error
        yield from all_errors(error)


def test_every_error_code_is_listed_with_its_exit_code() -> None:
    listed = {row[0].strip("`"): int(row[1]) for row in table("docs/cli.md", "code")[1:]}
    assert listed == {error.code: exit_code(error.code) for error in all_errors()}
    assert {code: listed[code] for code in EXITS} == EXITS


def test_the_errors_of_the_python_page_exist() -> None:
    codes = {error.__name__: error.code for error in all_errors()}
    for name, code, _ in table("docs/python.md", "class")[1:]:
        assert codes[name.strip("`")] == code.strip("`")


def test_the_lifecycle_table_is_the_lifecycle() -> None:
    [_, *steps], *rows = table("docs/concepts.md", "state")
    shown = {state: {step: after for step, after in zip(steps, cells, strict=True) if after} for state, *cells in rows}
    assert shown == LIFECYCLE


def test_every_kind_that_append_takes_is_listed_with_its_fields() -> None:
    listed = {row[0].strip("`"): row[1:] for row in table("docs/concepts.md", "kind")[1:]}
    assert set(listed) == {kind for kind, body in KINDS.items() if not body.reserved}
    for kind, (fields, durable) in listed.items():
        body = KINDS[kind]
        needed = len(body.__struct_fields__) - len(body.__struct_defaults__)
        optional = {field for field in fields.split(", ") if field.startswith("*")}
        names = [field.strip("*") for field in fields.split(", ")]
        assert sorted(names) == sorted(body.__struct_fields__), kind
        assert len(names) - len(optional) == needed, kind
        assert (durable == "yes") == body.durable, kind


def test_the_words_of_the_two_databases_are_listed() -> None:
    listed = {row[0].strip("`{}").removesuffix("(...)") for row in table("docs/architecture.md", "word")[1:]}
    assert listed == {*WORDS["lite"], *FUNCTIONS["lite"]} == {*WORDS["pg"], *FUNCTIONS["pg"]}


# Links and pictures ---------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", text(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pages
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(text(index))}
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} <= linked | {index}


def test_decisions_are_numbered_and_have_three_parts() -> None:
    found = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(page.name[:4]) for page in found]
    # Pages that are written at the same time have numbers of their own, so that one can be there before another.
    assert len(set(numbers)) == len(numbers)
    for number, page in zip(numbers, found, strict=True):
        assert page.name.startswith(f"{number:04}-")
        assert text(page).startswith(f"# {number}. ")
        assert re.findall(r"^## (.+)$", text(page), re.MULTILINE) == ["Context", "Decision", "What it costs"]


def test_the_commands_in_the_picture_exist() -> None:
    svg = (ROOT / "docs" / "images" / "terminal.svg").read_text("utf-8")
    drawn = " ".join(re.findall(r">([^<>]+)</text>", svg)).replace("&#160;", " ")
    shown = re.findall(r"\$ +(clew [a-z]+)", drawn)
    assert shown
    for command in shown:
        check_command([*shlex.split(command)[1:], *(["x"] if command == "clew show" else [])])


# The tree -------------------------------------------------------------------------------------------------------------

# A file or a folder of src/clew, as the tables name it: `views/<view>.py` stands for any.
TREE_NAME = re.compile(r"[a-z_]+(?:/[a-z_<>*]+)*(?:/|\.py|\.sql)")


def tree_names(page: str, first_column: str) -> set[str]:
    rows = table(page, first_column)[1:]
    return {name for row in rows for cell in row[1:] for name in CODE.findall(cell) if TREE_NAME.fullmatch(name)}


@pytest.mark.parametrize(
    ("page", "first_column"), [("docs/architecture.md", "to change"), ("CONTRIBUTING.md", "the change")]
)
def test_every_file_that_a_table_names_is_there(page: str, first_column: str) -> None:
    names = tree_names(page, first_column)
    assert len(names) > 8
    source = ROOT / "src" / "clew"
    missing = [name for name in names if not any(source.rglob(re.sub(r"<\w+>", "*", name.rstrip("/"))))]
    assert not missing


def test_the_table_of_packages_is_about_the_tree() -> None:
    """The same packages, and numbers that are right to a quarter: `python tools/packages.py --write` writes them."""
    shown = {row[0]: [int(cell.split()[0]) for cell in row[1:]] for row in table("docs/architecture.md", "package")[1:]}
    packages = {
        f"`{name}`": [len(lengths), round(statistics.median(lengths.values())), max(lengths.values())]
        for name, lengths in packages_tool().lengths_by_package().items()
    }
    assert shown.keys() == packages.keys()
    for name, numbers in packages.items():
        for number, said in zip(numbers, shown[name], strict=True):
            assert abs(number - said) <= max(3, number / 4), (name, numbers, shown[name])


def packages_tool() -> Any:
    spec = importlib.util.spec_from_file_location("packages", ROOT / "tools" / "packages.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool
