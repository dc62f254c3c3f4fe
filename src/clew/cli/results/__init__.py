"""Results of operations for people: a file for each concept. `print_open` prints what the operation `open` returns.

Types of the services are imported for the type checker alone: a command starts without loading them. A result's type
could not decide either: `open`, `fork` and `budget` return the same type and print different lines.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from clew.cli.output import print_json


def printer(operation: str) -> Callable[[Any], None]:
    """The function that prints the result of this operation; JSON for an operation without one."""
    name = f"print_{operation}"
    # A function, or another name for one: `print_share = print_access_grant`.
    defined = re.compile(rf"^(def {name}\(|(\w+ = )*{name} = )", re.MULTILINE)
    for file in Path(__file__).parent.glob("[a-z]*.py"):
        # Search the text first, so that only the file of the function is imported.
        if defined.search(file.read_text()):
            function: Callable[[Any], None] = getattr(import_module(f"{__name__}.{file.stem}"), name)
            return function
    return print_json
