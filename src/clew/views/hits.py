"""What a search gives: hits, in pages, by session or by relevance."""

import msgspec

from clew.model.passage import Role
from clew.model.query import Snippet


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that matches a query: its session, its seq and a snippet of its text."""

    id: int
    key: int
    session: str
    seq: int
    at: int
    role: Role
    tool: str
    failed: bool
    snippet: Snippet


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The hits of one session: the first few, and how many there are."""

    key: int
    hits: list[Hit]
    count: int
    is_exact: bool


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """A page of hits, and the id from which the next page continues; 0 on the last page."""

    hits: list[Hit]
    following: int = 0


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """A page of groups, the id from which the next page continues, and the newest id at the time of the first page."""

    groups: list[Group]
    following: int = 0
    newest: int = 0


class Rank(msgspec.Struct, frozen=True, order=True):
    """The rank of a hit by relevance. It never changes, so pages stay consistent while the log grows."""

    points: int
    id: int


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the most relevant hits, and the rank from which the next page continues; None on the last page."""

    hits: list[Hit]
    following: Rank | None = None
