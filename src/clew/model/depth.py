"""How deeply JSON may nest, so that every reader can parse it again."""

import re

# Limits for what views read and for a body. Python allows a thousand nested calls; the reader itself needs eighty.
DEEPEST = 400
DEEPEST_BODY = 920

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


def refuse_depth(text: bytes, deepest: int = DEEPEST) -> None:
    """Raise RecursionError for JSON that nests deeper than the limit."""
    if len(text) <= 2 * deepest or text.count(b"[") + text.count(b"{") <= deepest:
        return
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        if depth > deepest:
            raise RecursionError(f"it nests more than {deepest} deep")
