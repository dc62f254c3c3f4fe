"""Every agent program clew knows: one module each, loaded when asked for. Others join through an entry point.

A package of somebody else's offers an adapter under the entry point group `clew.runtimes`, as a `Runtime`.
"""

import importlib
from collections.abc import Iterator
from importlib.metadata import entry_points

from clew.model.errors import InvalidInput
from clew.runtimes.contract import Runtime

GROUP = "clew.runtimes"
# In the order in which a file of unknown origin is held up to them: the most particular first.
MODULES = {
    "qwen-code": "qwen_code",
    "gemini-cli": "gemini_cli",
    "claude-code": "claude_code",
    "codex": "codex",
    "copilot-cli": "copilot_cli",
    "opencode": "opencode",
    "pi": "pi",
    "cursor": "cursor",
    "droid": "droid",
    "kimi": "kimi",
    "cline": "cline",
    "swe-agent": "swe_agent",
    "atif": "atif",
    "aider": "aider",
    "copilot-interchange": "interchange",
    "clew": "clew_lines",
    "unknown": "unknown",
}


def runtime(name: str) -> Runtime:
    """The runtime of this name."""
    if name in MODULES:
        found: Runtime = importlib.import_module(f"clew.runtimes.{MODULES[name]}").RUNTIME
        return found
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _checked(point.load(), name)
    raise InvalidInput(f"no runtime {name!r}; there are {', '.join(names())}", runtime=name)


def names() -> list[str]:
    """The names of all runtimes, our own first."""
    return [*MODULES, *sorted(point.name for point in entry_points(group=GROUP) if point.name not in MODULES)]


def runtimes() -> Iterator[Runtime]:
    """All runtimes."""
    return (runtime(name) for name in names())


def _checked(found: object, name: str) -> Runtime:
    if not isinstance(found, Runtime) or found.name != name:
        raise InvalidInput(f"the entry point {name!r} of {GROUP} is not a Runtime of that name; see docs/adapters.md")
    return found
