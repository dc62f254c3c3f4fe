"""Retention policies: which bodies may go, and when. Removing them is the store's work."""

import msgspec

DAY_US = 24 * 60 * 60 * 1_000_000


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How long a project, or one agent of it, keeps its conversations. Durable knowledge is always kept.

    `keep_days` counts from when the conversation was last said; None keeps for ever. A hold forbids pruning and
    erasure alike.
    """

    project: str
    agent: str = ""
    keep_days: int | None = None
    hold: bool = False

    def __str__(self) -> str:
        where = f"{self.project}/{self.agent}" if self.agent else self.project
        days = "for ever" if self.keep_days is None else f"{self.keep_days} days"
        return f"{where}: conversations {days}" + (", on hold" if self.hold else "")


def ranges(seqs: list[int]) -> tuple[tuple[int, int], ...]:
    """Sorted seqs as closed ranges."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return tuple(ranges)
