"""Times in words and in local time."""

from datetime import UTC, datetime

# The last year that a date can be in.
LATEST = 253_370_764_800_000_000


def ago(at: int) -> str:
    """How long ago, in the largest unit that fits; what a wrong clock has put into the future is not now."""
    seconds = datetime.now(UTC).timestamp() - at / 1e6
    if seconds < -60:
        return f"in {_largest(-seconds)}"
    return f"{_largest(max(0.0, seconds))} ago"


def _largest(seconds: float) -> str:
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def moment(at: int) -> str:
    """The local time; a number out of range, as in a hostile record, becomes the nearest valid time."""
    return datetime.fromtimestamp(min(max(at, 0), LATEST) / 1e6).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def clock(at: int) -> str:
    """The local time to the minute."""
    return moment(at)[:16]
