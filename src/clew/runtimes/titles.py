"""The titles that prompts give to sessions, for every adapter alike."""

from typing import Protocol

from clew.model.events import Draft, MessageAdded, SessionTitled, TextPart
from clew.model.prompt_title import prompt_title


class Titled(Protocol):
    """The state of a reader, which remembers whether the session has its title."""

    titled: bool


def title_drafts(text: str, state: Titled, *, source: str, at: int | None = None) -> list[Draft]:
    """The title that this prompt gives, unless the session has one from the program or from an earlier prompt."""
    if state.titled:
        return []
    words, state.titled = prompt_title(text)
    return [Draft(body=SessionTitled(title=words), source=f"{source}/title", said_at=at)] if words else []


def prompt_text(body: object) -> str:
    """The text of a prompt; empty for anything else."""
    if not isinstance(body, MessageAdded) or body.role != "user" or body.side:
        return ""
    return "\n".join(part.text for part in body.content if isinstance(part, TextPart))
