"""Results of operations for people: a file for each concept. Its RENDER says which operations it prints.

Types of the services are imported for the type checker alone: a command starts without loading them. A result's type
could not decide either: `open`, `fork` and `budget` return the same type and print different lines.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from clew.cli.output import print_json


def printer(operation: str) -> Callable[[Any], None]:
    """The function that prints the result of this operation; JSON for an operation without one."""
    files = {file.stem for file in Path(__file__).parent.glob("[a-z]*.py")}
    # A file named after the operation comes first, so that the other files are not loaded.
    for name in sorted(files, key=lambda name: (name != operation, name)):
        renderers: dict[str, Callable[[Any], None]] = getattr(import_module(f"{__name__}.{name}"), "RENDER", {})
        if operation in renderers:
            return renderers[operation]
    return print_json
