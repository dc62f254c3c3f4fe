"""A brief: what the next worker needs to go on, in a page of text. Made from the durable tier, never by a model."""

from collections.abc import Iterable

from clew.model.knowledge import Knowledge
from clew.model.working_set import Touched

MOST_CHARACTERS = 4000


def brief(
    title: str, known: Knowledge, touched: Iterable[Touched], *, last: str = "", most: int = MOST_CHARACTERS
) -> str:
    """The brief of a session: its goal, what was decided and learned, what is done, what is next, the last word."""
    lines = [f"Session: {title}"] if title else []
    if known.progress is not None:
        lines += [f"Done: {known.progress.done}"] if known.progress.done else []
        lines += [f"Next: {known.progress.next}"] if known.progress.next else []
        lines += [f"Open question: {one}" for one in known.progress.open]
    lines += [
        f"Decided: {one.choice}" + (f" (because {one.why})" if one.why else "") for one in known.decisions.values()
    ]
    lines += [f"Fact: {one.text}" for one in known.facts.values()]
    files = [one.what for one in touched if one.type == "file"][:20]
    lines += [f"Files: {', '.join(files)}"] if files else []
    lines += [f"Last answer: {' '.join(last.split())[:600]}"] if last else []
    text = "\n".join(lines)
    return text if len(text) <= most else text[: most - 1] + "…"
