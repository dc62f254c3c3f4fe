"""Which views there are, and their versions, without importing the folds: a reader of fresh views runs none of them.

A view is a module and a file of statements with the same name; `views.sql` holds what all of them share.
"""

import re
from functools import cache
from importlib import import_module

from clew.store.derived import statement_files
from clew.views.contract import View

PACKAGE = "clew.views"
_VERSION = re.compile(r"^    version: ClassVar\[int\] = (\d+)$", re.MULTILINE)


@cache
def versions() -> dict[str, int]:
    """The version of each view by its name, read from the text of its module."""
    found = {}
    for statements in statement_files(PACKAGE):
        if statements.stem != "views":
            text = (statements.parent.parent / f"{statements.stem}.py").read_text("utf-8")
            found[statements.stem] = int(_VERSION.findall(text)[0])
    return found


@cache
def load_views() -> tuple[type[View], ...]:
    """The class of each view, in the order of their names."""
    return tuple(import_module(f"{PACKAGE}.{name}").VIEW for name in versions())
