"""A family of sessions as a picture: a line for each, from where it parts from its parent to its last event."""

from collections.abc import Callable, Sequence
from math import log2
from typing import NamedTuple

from clew.service.sessions.family import SUBAGENT, Relative
from clew.service.sessions.line import SessionLine

WIDTH, LABEL, LEFT, ROW, LINE = 720, 340, 12, 44, 32
# About how wide a character of a label is, and what is said beside it.
CHARACTER, BESIDE = 7.2, 230


class Branch(NamedTuple):
    """A member: its line in the picture, the curve from its parent's line, and its place in the list."""

    session: SessionLine
    how: str
    at: int
    is_here: bool
    parent: str
    depth: int
    y: int
    x: float
    end: float
    curve: str
    """The path from the parent; empty for the first."""
    label_x: float
    letters: int
    """How many characters of a label fit beside its line."""
    opens: bool
    """Whether a list begins with it, in its parent's entry."""
    closes: int
    """How many lists end with it."""


class Picture(NamedTuple):
    branches: list[Branch]
    width: int
    height: int


def picture(members: Sequence[Relative], here: str) -> Picture:
    """The members in the order of the tree. Each begins where it parts; seqs are stretched so that all can be seen."""
    ordered = _in_order(members)
    place = _scale([seq for member, _ in ordered for seq in (member.at, member.session.head)])
    rows = {member.session.id: number * ROW + LINE for number, (member, _) in enumerate(ordered)}
    begins = {member.session.id: place(member.at) for member, _ in ordered}
    branches = []
    for number, (member, depth) in enumerate(ordered):
        id = member.session.id
        x, y = begins[id], rows[id]
        if member.how == SUBAGENT:
            x = begins[id] = min(begins[member.parent] + 2 * LEFT, WIDTH)
        next_depth = ordered[number + 1][1] if number + 1 < len(ordered) else 0
        branches.append(Branch(
            session=member.session, how=member.how, at=member.at, is_here=id == here, parent=member.parent,
            depth=depth, y=y, x=round(x, 1), end=round(max(x + 2 * LEFT, place(member.session.head)), 1),
            curve=_curve(rows[member.parent], y, x) if member.parent else "", label_x=round(x + LEFT + 4, 1),
            letters=max(16, min(60, int((WIDTH + LABEL - x - BESIDE) / CHARACTER))),
            opens=number > 0 and depth > ordered[number - 1][1], closes=max(0, depth - next_depth),
        ))  # fmt: skip
    return Picture(branches, WIDTH + LABEL + LEFT, len(ordered) * ROW)


def _in_order(members: Sequence[Relative]) -> list[tuple[Relative, int]]:
    """The members with their depth, children after their parent. Who parts last comes first, so no line crosses one."""
    children: dict[str, list[Relative]] = {}
    for member in members:
        children.setdefault(member.parent, []).append(member)
    waiting = [(member, 0) for member in members if not member.parent]
    ordered = []
    while waiting:
        member, depth = waiting.pop()
        ordered.append((member, depth))
        below = sorted(children.get(member.session.id, []), key=lambda child: (child.at, child.session.opened_at))
        waiting += [(child, depth + 1) for child in below]
    return ordered


def _scale(seqs: Sequence[int]) -> Callable[[int], float]:
    """Places seqs from left to right. What lies far apart is drawn nearer, so that a late fork of a long session shows
    as well as an early one."""
    places: dict[int, float] = {}
    total, before = 0.0, 0
    for seq in sorted({0, *seqs}):
        total += 1 + log2(1 + seq - before) if seq > before else 0.0
        places[seq], before = total, seq
    return lambda seq: LEFT + places[seq] / (total or 1.0) * WIDTH


def _curve(parent_y: int, y: int, x: float) -> str:
    """From the parent's line down, and round into one's own."""
    x = round(x, 1)
    return f"M{x} {parent_y}V{y - LEFT}Q{x} {y} {round(x + LEFT, 1)} {y}"
