"""One attack, and the oracle that says whether it succeeded."""

import re
from collections.abc import Callable
from typing import NamedTuple

from attack.wire import Answer
from attack.world import World

# What an answer says of itself and not of what was asked for.
_OWN = re.compile(rb'"(request|instance)":"[^"]*"|\b\d{5,}\b|"(at|until)":\d+')
# Text that a page or a terminal would obey, and a header that came from a value.
OBEYED = (b"<script>alert", b"<img src=x", b"\x1b]0;", b"\nx-injected:")


class Attack(NamedTuple):
    family: str
    about: str
    raw: bytes
    is_denied: bool = False
    """Whether it has succeeded when it is carried out at all."""
    twin: bytes = b""
    """The same about what is not there: it has succeeded when the two answers can be told apart."""
    said: tuple[str, ...] = ()
    """What the attacker knew and asked with."""
    until: bytes = b""


class Race(NamedTuple):
    """An attack that needs several requests at once; it says how it succeeded, or nothing."""

    family: str
    about: str
    run: Callable[[int], str]


def verdict(world: World, attack: Attack, answer: Answer, twin: Answer | None) -> str:
    """How an attack succeeded; empty when it did not. Whether it changed anything is looked at beside."""
    if answer.status >= 500:
        return f"the server failed with {answer.status}"
    if attack.is_denied and answer.is_done:
        return f"it was answered with {answer.status}"
    asked = attack.raw
    words = answer.words()
    for canary in world.canaries():
        if canary.encode() in words and canary.encode() not in asked and canary not in attack.said:
            return f"it was shown {canary!r}"
    for text in OBEYED:
        if text in answer.text.lower() and b"text/event-stream" not in answer.text and not _is_json(answer):
            return f"{text!r} came back as it was sent"
    if twin is not None and _told(attack, answer) != _told(attack, twin):
        return f"what is there is answered with {answer.status}, and what is not with {twin.status} or other words"
    return ""


def _is_json(answer: Answer) -> bool:
    return re.search(rb"content-type: application/[\w.+-]*json", answer.text.lower()) is not None


def _told(attack: Attack, answer: Answer) -> tuple[int, bytes]:
    body = answer.text.partition(b"\r\n\r\n")[2]
    for word in sorted(attack.said, key=len, reverse=True):
        body = body.replace(word.encode(), b"?").replace(word.lower().encode(), b"?")
    return answer.status, _OWN.sub(b"#", body)
