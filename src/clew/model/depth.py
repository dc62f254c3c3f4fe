"""How deeply JSON may nest: not so deeply that somebody who reads it back could not."""

import re

# Of what the views read, and of a body: whoever reads it back has eighty calls of their own left, of a thousand.
DEEPEST = 400
DEEPEST_BODY = 920

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


def refuse_depth(text: bytes, deepest: int = DEEPEST) -> None:
    """Raise RecursionError for what nests so deeply that not everybody could read it back."""
    if len(text) <= 2 * deepest or text.count(b"[") + text.count(b"{") <= deepest:
        return
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        if depth > deepest:
            raise RecursionError(f"it nests more than {deepest} deep")
