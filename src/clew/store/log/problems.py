"""What a verification reports."""

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What does not hold, and where; without a session it is the database itself."""

    session: str
    seq: int
    what: str

    @property
    def place(self) -> str:
        return f"session {self.session} seq {self.seq}" if self.session else "the database"


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked and what does not hold."""

    session: str
    events: int
    removed: int
    digest: str
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        return not self.problems
