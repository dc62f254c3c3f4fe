"""Numbers that programs read alike. JSON has no largest number, and what a library makes of a larger one differs.

`1e999` is infinity for one library, null for another and an error for a third; an integer beyond 64 bits is exact,
rounded or refused. So a draft that somebody writes holds neither. Records of agent programs are kept as they are.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from clew.model.errors import InvalidInput

LARGEST = 2**64 - 1
SMALLEST = -(2**63)
# Values that hold no such number; most are of these types, and asking for the type is fastest.
_HARMLESS = frozenset({str, int, bool, type(None)})
# What may be such a number; most texts hold none, and are not looked at any further.
_SUSPECT = re.compile(rb"[0-9]{19}|[0-9.][eE][+-]?[0-9]{2}")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)


def check_numbers(text: bytes) -> None:
    """Refuse JSON with a number that libraries do not agree on."""
    if not _SUSPECT.search(text):
        return
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.startswith(b'"'):
            continue
        if not token.lstrip(b"-").isdigit():
            _check(float(token) if _is_number(token) else 0.0)
        elif len(token) > 20 or not SMALLEST <= int(token) <= LARGEST:
            _refuse(token.decode())


def check_values(value: Any) -> None:
    """Refuse values that hold such a number; not a number (NaN) would become null."""
    match value:
        case float():
            _check(value)
        case dict() | Mapping():
            for inner in value.values():
                if type(inner) not in _HARMLESS:
                    check_values(inner)
        case list() | tuple():
            for inner in value:
                if type(inner) not in _HARMLESS:
                    check_values(inner)


def _is_number(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _check(value: float) -> None:
    if not math.isfinite(value):
        _refuse(str(value))


def _refuse(shown: str) -> None:
    raise InvalidInput(
        f"the number {shown[:40]} is read differently by different programs; use one within 64 bits, or a text"
    )
