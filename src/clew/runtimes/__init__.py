"""Every agent program clew knows: one module each, loaded when asked for. Others join through an entry point.

A package of somebody else's offers an adapter under the entry point group `clew.runtimes`, as a `Runtime`.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from clew.model.errors import InvalidInput
from clew.runtimes.contract import Runtime

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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

# What an adapter's patterns begin with, and the variable that names another home: where neither is there, looking for
# sessions need not load the adapter. A test holds this against the adapters.
SIGNS: dict[str, tuple[tuple[str, ...], str]] = {
    "qwen-code": ((".qwen",), "QWEN_HOME"),
    "gemini-cli": ((".gemini",), "GEMINI_CLI_HOME"),
    "claude-code": ((".claude",), "CLAUDE_CONFIG_DIR"),
    "codex": ((".codex",), "CODEX_HOME"),
    "copilot-cli": ((".copilot",), "COPILOT_HOME"),
    "opencode": ((".local/share/opencode",), "XDG_DATA_HOME"),
    "pi": ((".pi/agent",), ""),
    "cursor": ((".cursor", ".cursor-server", ".config/Cursor", "Library", "AppData"), ""),
    "droid": ((".factory",), ""),
    "kimi": ((".kimi", ".kimi-code"), ""),
    "cline": ((".config", ".vscode-server", ".cline", "Library", "AppData"), ""),
    "swe-agent": ((), ""),
    "atif": ((), ""),
    "aider": ((".aider.chat.history.md",), ""),
    "copilot-interchange": ((), ""),
    "clew": ((), ""),
    "unknown": ((), ""),
}


def present(home: Path, *, variables: bool) -> Iterator[Runtime]:
    """The runtimes that may have sessions below a home, or where the environment says."""
    for name in names():
        signs, variable = SIGNS.get(name, (("",), ""))
        told = variables and variable and os.environ.get(variable)
        if (told or any((home / sign).exists() for sign in signs)) and (found := _loaded(name)):
            yield found


def absent(home: Path) -> list[str]:
    """The places below a home where sessions of runtimes would begin, if they were there."""
    return [str(place) for signs, _ in SIGNS.values() for sign in signs if not (place := home / sign).exists()]


def sources() -> list[str]:
    """The folders that hold the adapters: our own, and those where other packages may be."""
    return [os.path.dirname(__file__), *(place for place in sys.path if os.path.isdir(place))]


def variables() -> list[str]:
    """The variables that name the homes of runtimes."""
    others = (found.home_variable for name in names() if name not in SIGNS and (found := _loaded(name)))
    return sorted({variable for variable in (*(own for _, own in SIGNS.values()), *others) if variable})


def runtime(name: str) -> Runtime:
    """The runtime of this name."""
    if name in MODULES:
        found: Runtime = importlib.import_module(f"clew.runtimes.adapters.{MODULES[name]}").RUNTIME
        return found
    if name in _others():
        return _other(name)
    raise InvalidInput(f"no runtime {name!r}; there are {', '.join(names())}", runtime=name)


def names() -> list[str]:
    """The names of all runtimes, our own first."""
    return [*MODULES, *sorted(_others().keys() - MODULES.keys())]


def runtimes() -> Iterator[Runtime]:
    """All runtimes but those of other packages that are `broken`."""
    return (found for name in names() if (found := _loaded(name)))


def broken() -> dict[str, str]:
    """The adapters of other packages that cannot be used, and why."""
    found = {}
    for name in names():
        try:
            runtime(name)
        except InvalidInput as error:
            found[name] = str(error)
    return found


def _loaded(name: str) -> Runtime | None:
    """A runtime; None for one of another package that is broken, which is no reason to do without the others."""
    try:
        return runtime(name)
    except InvalidInput:
        return None


@cache
def _others() -> dict[str, "EntryPoint"]:
    """What other packages offer."""
    if not any(map(_mentions_us, sys.path)):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _mentions_us(place: str) -> bool:
    """Whether a package in this place may offer an adapter: loading the library that knows takes much longer."""
    if not os.path.isdir(place or "."):
        return os.path.isfile(place)  # Packages can be in an archive, too; Python names one that there seldom is.
    with os.scandir(place or ".") as entries:
        for entry in entries:
            if entry.name.endswith((".dist-info", ".egg-info", ".egg-link")):
                try:
                    if GROUP.encode() in Path(entry.path, "entry_points.txt").read_bytes():
                        return True
                except OSError:
                    continue
    return False


def _other(name: str) -> Runtime:
    try:
        found = _others()[name].load()
    except Exception as error:  # Anything can go wrong in somebody else's package.
        raise InvalidInput(f"the adapter {name!r} cannot be loaded: {error}; ask its author", runtime=name) from error
    if not isinstance(found, Runtime) or found.name != name:
        raise InvalidInput(f"the entry point {name!r} of {GROUP} is not a Runtime of that name; see docs/adapters.md")
    return found
