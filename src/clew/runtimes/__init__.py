"""The adapters of all agent programs that clew knows: one module each, imported on first use.

Another package can offer an adapter, a `Runtime`, under the entry point group `clew.runtimes`.
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
# A file of unknown origin is tried with the adapters in this order: the most specific comes first.
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
    "antigravity": "antigravity",
    "kiro": "kiro",
    "grok": "grok",
    "gptme": "gptme",
    "amp": "amp",
    "goose": "goose",
    "zed": "zed",
    "copilot-chat": "copilot_chat",
    "continue": "continue_dev",
    "chatgpt": "chatgpt",
    "claude-ai": "claude_ai",
    "iflow": "iflow",
    "openclaw": "openclaw",
    "traex": "traex",
    "codebuddy": "codebuddy",
    "workbuddy": "workbuddy",
    "swe-agent": "swe_agent",
    "atif": "atif",
    "aider": "aider",
    "copilot-interchange": "interchange",
    "clew": "clew_lines",
    "openai-chat": "openai_chat",
    "unknown": "unknown",
}

# Programs that write the form of another one: a file of unknown origin is tried with these before all others.
LOOK_ALIKES = ("iflow", "openclaw", "traex", "workbuddy", "codebuddy")

# The folders that an adapter's patterns begin with, and the variables that name other folders. If none exists, the
# search for sessions does not import the adapter. A test compares this table with the adapters.
_MAC, _PC = "Library/Application Support", "AppData/Roaming"
SIGNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "qwen-code": ((".qwen",), ("QWEN_HOME",)),
    "gemini-cli": ((".gemini",), ("GEMINI_CLI_HOME",)),
    "claude-code": ((".claude",), ("CLAUDE_CONFIG_DIR",)),
    "codex": ((".codex",), ("CODEX_HOME",)),
    "copilot-cli": ((".copilot",), ("COPILOT_HOME",)),
    "opencode": ((".local/share/opencode",), ("XDG_DATA_HOME",)),
    "pi": ((".pi/agent",), ("PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR")),
    "cursor": ((".cursor", ".cursor-server", ".config/Cursor", "Library", "AppData"), ()),
    "droid": ((".factory",), ()),
    "kimi": ((".kimi", ".kimi-code"), ()),
    "cline": ((".config", ".vscode-server", ".cline", "Library", "AppData"), ()),
    "antigravity": ((".gemini/antigravity-cli", ".gemini/antigravity"), ()),
    "kiro": ((".kiro", ".local/share/kiro-cli", ".config/Kiro", f"{_MAC}/kiro-cli", f"{_MAC}/Kiro", f"{_PC}/Kiro"), ()),
    "grok": ((".grok",), ("GROK_HOME",)),
    "gptme": ((".local/share/gptme", f"{_MAC}/gptme"), ()),
    "amp": ((".local/share/amp",), ()),
    "goose": ((".local/share/goose", f"{_MAC}/goose", f"{_PC}/Block"), ()),
    "zed": ((".local/share/zed", f"{_MAC}/Zed", "AppData/Local/Zed"), ()),
    "copilot-chat": (
        (
            *(
                f"{folder}/{name}"
                for folder in (".config", _MAC, _PC)
                for name in ("Code", "Code - Insiders", "VSCodium")
            ),
            ".vscode-server",
            ".vscode-server-insiders",
        ),
        (),
    ),
    "continue": ((".continue",), ("CONTINUE_GLOBAL_DIR",)),
    "chatgpt": ((), ()),
    "claude-ai": ((), ()),
    "iflow": ((".iflow",), ()),
    "openclaw": ((".openclaw", ".clawdbot", ".moltbot"), ()),
    "traex": ((".trae",), ()),
    "workbuddy": ((".workbuddy",), ("WORKBUDDY_CONFIG_DIR",)),
    "codebuddy": ((".codebuddy",), ("CODEBUDDY_CONFIG_DIR",)),
    "swe-agent": ((), ()),
    "atif": ((), ()),
    "aider": ((".aider.chat.history.md",), ()),
    "copilot-interchange": ((), ()),
    "clew": ((), ()),
    "openai-chat": ((), ()),
    "unknown": ((), ()),
}


def present(home: Path, *, variables: bool) -> Iterator[Runtime]:
    """The runtimes that may have sessions below a home, or below the folder that the environment names."""
    for name in names():
        signs, named_by = SIGNS.get(name, (("",), ()))
        is_set = variables and any(map(os.environ.get, named_by))
        if (is_set or any((home / sign).exists() for sign in signs)) and (adapter := _runtime_or_none(name)):
            yield adapter


def absent(home: Path) -> list[str]:
    """The folders below a home that would hold sessions but do not exist."""
    return [str(folder) for signs, _ in SIGNS.values() for sign in signs if not (folder := home / sign).exists()]


def sources() -> list[str]:
    """The folders that hold the adapters: ours, and those where other packages may be installed."""
    return [os.path.dirname(__file__), *(folder for folder in sys.path if os.path.isdir(folder))]


def variables() -> list[str]:
    """The variables that name the homes of runtimes, and other folders with sessions."""
    others = (adapter for name in names() if name not in SIGNS and (adapter := _runtime_or_none(name)))
    of_others = {variable for adapter in others for variable in adapter.variables}
    return sorted(of_others.union(*(named_by for _, named_by in SIGNS.values())))


# Names that people use, without case and with spaces as hyphens.
ALIASES = {
    "claude": "claude-code", "claudecode": "claude-code", "cc": "claude-code", "gemini": "gemini-cli",
    "copilot": "copilot-cli", "github-copilot": "copilot-cli", "github-copilot-cli": "copilot-cli",
    "qwen": "qwen-code", "codex-cli": "codex", "openai-codex": "codex", "open-code": "opencode",
    "cursor-agent": "cursor", "cursor-cli": "cursor", "factory": "droid", "kimi-cli": "kimi", "roo": "cline",
    "roo-code": "cline", "openai": "openai-chat", "agy": "antigravity", "antigravity-cli": "antigravity",
    "kiro-cli": "kiro", "grok-cli": "grok", "grok-build": "grok", "clawdbot": "openclaw", "moltbot": "openclaw",
    "vscode": "copilot-chat", "vscode-copilot": "copilot-chat", "continue.dev": "continue", "claude.ai": "claude-ai",
    "iflow-cli": "iflow", "trae": "traex", "traecli": "traex", "trae-cli": "traex", "codebuddy-code": "codebuddy",
}  # fmt: skip


def canonical(name: str) -> str:
    """The name of a runtime, from the name that people use; empty if there is none."""
    folded = "-".join(name.casefold().replace("_", " ").replace("-", " ").split())
    known = ALIASES.get(folded, folded)
    return known if known in names() else name if name in names() else ""


def resolve(name: str) -> str:
    """The name of a runtime, from the name that people use; else `InvalidInput`."""
    known = canonical(name)
    if not known:
        raise unknown_runtime(name)
    return known


def unknown_runtime(name: str) -> InvalidInput:
    """The error for a name that no runtime has."""
    from clew.model.nearest import suggestion  # An error needs it.

    near = suggestion(name, names())
    return InvalidInput(f"no runtime {name!r}; {near or 'the runtimes are ' + ', '.join(names())}", runtime=name)


def runtime(name: str) -> Runtime:
    """The runtime of this name."""
    if name in MODULES:
        adapter: Runtime = importlib.import_module(f"clew.runtimes.adapters.{MODULES[name]}").RUNTIME
        return adapter
    if name in _entry_points():
        return _load_entry_point(name)
    raise unknown_runtime(name)


def names() -> list[str]:
    """The names of all runtimes, our own first."""
    return [*MODULES, *sorted(_entry_points().keys() - MODULES.keys())]


def runtimes() -> Iterator[Runtime]:
    """All runtimes except the `broken` ones of other packages."""
    return (adapter for name in names() if (adapter := _runtime_or_none(name)))


def recognisers() -> list[Runtime]:
    """All runtimes in the order in which a file of unknown origin is tried with them."""
    return sorted(runtimes(), key=lambda adapter: adapter.name not in LOOK_ALIKES)


def broken() -> dict[str, str]:
    """The adapters of other packages that cannot be loaded, each with its error."""
    errors = {}
    for name in names():
        try:
            runtime(name)
        except InvalidInput as error:
            errors[name] = str(error)
    return errors


def _runtime_or_none(name: str) -> Runtime | None:
    """A runtime; None if it belongs to another package and cannot be loaded. The others still work."""
    try:
        return runtime(name)
    except InvalidInput:
        return None


@cache
def _entry_points() -> dict[str, "EntryPoint"]:
    """The entry points of other packages."""
    if not any(map(_may_hold_an_adapter, sys.path)):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _may_hold_an_adapter(folder: str) -> bool:
    """Whether a package in this folder may offer an adapter. Asking importlib.metadata takes much longer."""
    if not os.path.isdir(folder or "."):
        return os.path.isfile(folder)  # Packages can be in an archive, too. Python's own entry for one seldom exists.
    with os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.endswith((".dist-info", ".egg-info", ".egg-link")):
                try:
                    if GROUP.encode() in Path(entry.path, "entry_points.txt").read_bytes():
                        return True
                except OSError:
                    continue
    return False


def _load_entry_point(name: str) -> Runtime:
    try:
        adapter = _entry_points()[name].load()
    except Exception as error:  # The code of another package can raise anything.
        raise InvalidInput(f"the adapter {name!r} cannot be loaded: {error}; ask its author", runtime=name) from error
    if not isinstance(adapter, Runtime) or adapter.name != name:
        raise InvalidInput(f"the entry point {name!r} of {GROUP} is not a Runtime of that name; see docs/adapters.md")
    return adapter
