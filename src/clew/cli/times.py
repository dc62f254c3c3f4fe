"""Times in words and in local time."""

from datetime import UTC, datetime

from clew.model import figures

# The last year that a date can be in.
LATEST = 253_370_764_800_000_000


def ago(at: int) -> str:
    """How long ago, in the largest unit that fits."""
    return figures.ago(at, int(datetime.now(UTC).timestamp() * 1e6))


def moment(at: int) -> str:
    """The local time; a number out of range, as in a hostile record, becomes the nearest valid time."""
    return datetime.fromtimestamp(min(max(at, 0), LATEST) / 1e6).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def clock(at: int) -> str:
    """The local time to the minute."""
    return moment(at)[:16]
