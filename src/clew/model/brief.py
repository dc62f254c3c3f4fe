"""A brief: what the next worker needs to continue, on one page. It is made from the durable tier, not by an llm."""

from collections.abc import Iterable

from clew.model.knowledge import Knowledge
from clew.model.title import shortened, uncut
from clew.model.working_set import Touched

MOST_CHARACTERS = 4000
MOST_OF_ANSWER = 600


def brief(
    title: str, knowledge: Knowledge, touched: Iterable[Touched], *, last: str = "", most: int = MOST_CHARACTERS
) -> str:
    """The brief of a session: its goal, what was decided and learned, what is done, what is next, the last word."""
    lines = [f"Session: {uncut(title)}"] if title else []
    if knowledge.progress is not None:
        lines += [f"Done: {knowledge.progress.done}"] if knowledge.progress.done else []
        lines += [f"Next: {knowledge.progress.next}"] if knowledge.progress.next else []
        lines += [f"Open question: {question}" for question in knowledge.progress.open]
    lines += [
        f"Decided: {decision.choice}" + (f" (because {decision.why})" if decision.why else "")
        for decision in knowledge.decisions.values()
    ]
    lines += [f"Fact: {fact.text}" for fact in knowledge.facts.values()]
    files = [touch.what for touch in touched if touch.type == "file"][:20]
    lines += [f"Files: {', '.join(files)}"] if files else []
    lines += [f"Last answer: {shortened(' '.join(last.split()), MOST_OF_ANSWER)}"] if last else []
    text = "\n".join(lines)
    return shortened(text, most)
