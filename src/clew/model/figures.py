"""Numbers, money and times in words: every surface that shows them to people uses these functions."""

_SIZES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def count(number: int, noun: str, plural: str = "") -> str:
    """The number and the noun; a plural that does not end in s has to be given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def number_if_any(number: int) -> str:
    """The number; empty for 0."""
    return f"{number:,}" if number else ""


def cost(micros: int | None) -> str:
    if micros is None:
        return "-"
    return f"${micros / 1e6:,.2f}" if micros >= 5000 or not micros else "<$0.01"


def ago(at: int, now: int) -> str:
    """How long before `now` something was, both in microseconds; what a wrong clock put into the future is not now."""
    seconds = (now - at) / 1e6
    if seconds < -60:
        return f"in {_largest(-seconds)}"
    return f"{_largest(max(0.0, seconds))} ago"


def _largest(seconds: float) -> str:
    """A time in the largest unit that fits."""
    for size, unit in _SIZES:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def duration(us: int) -> str:
    """How long something took: 40 ms, 1.2 s, 3 min 5 s, 2 h 10 min."""
    if us < 1_000_000:
        return f"{us // 1000} ms"
    seconds = us / 1e6
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60:,} h {minutes % 60} min"
