"""Filters as people write them: `runtime:codex error:yes since:monday`, into parameters of an operation and back."""

import re
from collections.abc import Collection, Mapping

# What people write for what an operation calls otherwise.
ALIASES = {"error": "failed", "errors": "failed", "status": "state", "program": "runtime", "path": "folder"}
YES = {"yes": "true", "no": "false", "1": "true", "0": "false"}
_WORD = re.compile(r'(?:(?P<name>[a-z_]+):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))')


def given_filters(text: str, names: Collection[str]) -> tuple[dict[str, str], str]:
    """The filters in a text by name, and the words that name none."""
    given: dict[str, str] = {}
    words = []
    for match in _WORD.finditer(text):
        name = ALIASES.get(match["name"] or "", match["name"] or "")
        if name in names:
            given[name] = match["plain"] if match["quoted"] is None else match["quoted"]
        else:
            words.append(match[0])
    return given, " ".join(words)


def filter_text(given: Mapping[str, str]) -> str:
    """Filters as a text that `given_filters` reads."""
    return " ".join(f"{name}:{_quoted(value)}" for name, value in given.items())


def _quoted(value: str) -> str:
    is_plain = value and not value.startswith('"') and not any(map(str.isspace, value))
    return value if is_plain else f'"{value}"'
