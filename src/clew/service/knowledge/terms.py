"""The argument types of the knowledge operations."""

import enum
from typing import Annotated

import msgspec

from clew.service.sessions.events import Seq

# Knowledge is a few sentences; longer text belongs in the conversation.
LONGEST = 10_000


class Holds(enum.StrEnum):
    """Where a fact applies."""

    SESSION = "session"
    PROJECT = "project"
    EVERYWHERE = "everywhere"


Text = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST)]
Texts = Annotated[list[Text], msgspec.Meta(max_length=100)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Expect = Annotated[Seq, msgspec.Meta(description="The head you know; refused when it has moved on.")]
Reason = Annotated[str, msgspec.Meta(max_length=LONGEST, description="Why; kept in the log.")]
