"""The text of answers: the only type that an answer is made of. Masking makes it, or somebody says why it needs none.

mypy holds that no other bytes reach an answer or a stream, and tests/isolation/test_answer_text.py who says so.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NewType

from clew.service.kernel.context import Context

AnswerText = NewType("AnswerText", bytes)


class NeedsNoMasking(Enum):
    """Why a text has nothing to mask."""

    DECLARED = "its operation declares that it shows numbers, proofs, or a new secret that is shown once"
    MASKED_BEFORE = "it was masked when it was made or stored"
    OWN_WORDS = "clew itself wrote all of it"


NOTHING = AnswerText(b"")


def masked(context: Context, text: bytes) -> AnswerText:
    """The text without secrets: the one place where they are taken out of answers."""
    from clew.service.privacy.masking import masker

    return AnswerText(masker(context)(text))


def unmasked(text: bytes, because: NeedsNoMasking) -> AnswerText:
    """A text as it is; `because` says why nothing in it needs to be masked."""
    return AnswerText(text)


def joined(texts: Iterator[AnswerText], most: int) -> tuple[AnswerText, bool]:
    """The first texts, until they are so long; and whether they are all."""
    beginning = bytearray()
    for text in texts:
        beginning += text
        if len(beginning) >= most:
            return AnswerText(bytes(beginning)), False
    return AnswerText(bytes(beginning)), True
