"""Numbers for people: with their nouns, in a column, and as money."""


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
