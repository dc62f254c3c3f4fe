"""The registry: what surfaces know of an operation stands in its declaration, and none of them asks for its name."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.cli.output import print_json
from clew.cli.results import printer
from clew.model.errors import InvalidInput
from clew.service.kernel import registry
from clew.service.kernel.registry import find, load, operation_named

PACKAGE = Path(clew.__file__).parent
SURFACES = [
    *(path for folder in ("server", "cli", "mcp", "consumers") for path in sorted((PACKAGE / folder).rglob("*.py"))),
    *(PACKAGE / f"{name}.py" for name in ("app", "async_plane", "client", "doctor", "local", "remote")),
]
# Words that are no names of operations where they stand.
OTHER_MEANINGS = {
    ("cli/__init__.py", "capture"): "what was typed, when it can be answered before anything is imported",
    ("cli/results/knowledge.py", "progress"): "a kind of knowledge",
    ("cli/transcript.py", "blob"): "a field of an event",
    ("mcp/tools.py", "brief"): "a form in which a session is read",
    ("cli/output.py", "sessions"): "a column of a table",
    ("cli/fitting.py", "title"): "a column of a table",
    ("mcp/outgoing.py", "title"): "a field of a session",
    ("mcp/tools.py", "title"): "a word of JSON Schema",
    ("mcp/workspace.py", "artifacts"): "an action of the tool",
    ("server/web/pages/workspace.py", "files"): "a tab of a page",
    ("server/web/pages/workspace.py", "blame"): "a tab of a page",
    ("remote.py", "title"): "a field of an error",
    ("server/web/pages/session_tabs.py", "usage"): "a tab of a page",
}


def test_the_text_of_the_modules_declares_exactly_what_they_register() -> None:
    declared = {name: module for module in registry._modules() for name in registry._declared(module)}
    assert declared.keys() == load().keys()
    for name, module in declared.items():
        assert load()[name].run.__module__ == module.import_name


@pytest.mark.parametrize(("name", "module"), [("append", "sessions.events"), ("capture_find", "capture.changed_files")])
def test_asking_for_an_operation_imports_no_module_of_another(name: str, module: str) -> None:
    code = f"""
import sys
from clew.service.kernel.registry import OPERATIONS, operation_named
operation_named({name!r})
print(len(OPERATIONS), "clew.service.{module}" in sys.modules, "clew.service.audit.checkpoints" in sys.modules)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(printed[0]) < 20
    assert printed[1:] == ["True", "False"]


def test_an_unknown_operation_is_refused_with_those_there_are() -> None:
    assert find("nonsense") is None
    with pytest.raises(InvalidInput, match=r"no operation 'nonsense'; there are access_end, .*whoami"):
        operation_named("nonsense")


def test_an_operation_that_nobody_wrote_a_table_for_is_shown_as_json() -> None:
    assert printer("of_tomorrow") is print_json


def asked_by_name(tree: ast.AST, names: set[str]) -> Iterator[ast.Constant]:
    """The places where a name of an operation is compared, matched, or kept in a set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            suspects: list[ast.AST] = [node.left, *node.comparators]
        elif isinstance(node, ast.Set | ast.MatchValue):
            suspects = [node]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset"):
            suspects = list(node.args)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and "with" in node.func.attr:
            # name.startswith("sync_")
            beginnings = {name[: name.index("_") + 1] for name in names if "_" in name}
            suspects = [one for one in node.args if isinstance(one, ast.Constant) and one.value in beginnings]
            yield from suspects
            continue
        else:
            continue
        for suspect in suspects:
            inner = suspect.elts if isinstance(suspect, ast.Set | ast.Tuple | ast.List) else [suspect]
            yield from (one for one in inner if isinstance(one, ast.Constant) and one.value in names)


@pytest.mark.parametrize("path", SURFACES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_surface_asks_for_the_name_of_an_operation(path: Path) -> None:
    place = str(path.relative_to(PACKAGE))
    found = [ast.literal_eval(node) for node in asked_by_name(ast.parse(path.read_text()), {*load()})]
    asked = [name for name in found if (place, name) not in OTHER_MEANINGS]
    assert not asked, f"{place} asks for {asked} by name; declare in @operation(...) what it needs to know"


def test_the_check_itself_sees_each_way_of_asking() -> None:
    for text in (
        'operation.name == "append"', '"append" != name', 'name in ("append", "show")', 'SECRET = {"link"}',
        'SECRET = frozenset({"link"})', 'name.startswith("sync_")', 'frozenset(["link"])',
    ):  # fmt: skip
        assert list(asked_by_name(ast.parse(text), {*load()})), text
