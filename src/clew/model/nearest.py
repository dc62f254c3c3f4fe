"""The name that was perhaps meant instead of one that does not exist."""

from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """A question for the names nearest to this one; empty if none is near."""
    from difflib import get_close_matches  # Imported here: loading it takes longer than most commands run.

    by_folded = {word.casefold(): word for word in known}
    folded = name.casefold()
    near = [word for word in by_folded if folded and word.startswith(folded)][:3]
    near = near or get_close_matches(folded, by_folded, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(by_folded[word] for word in near)}?" if near else ""
