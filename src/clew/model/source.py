"""The source of an event: the identity of its record in the program that wrote it, and the mark of a revision."""

# What follows this mark distinguishes a revision of a record from its first form.
REVISION = "~"


def identity(source: str | None) -> str:
    """The part of a source that stays the same when its record is corrected."""
    return source.partition(REVISION)[0] if source else ""
