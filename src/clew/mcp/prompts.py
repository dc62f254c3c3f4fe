"""Prompts: what a person picks to continue earlier work, or to hand theirs over."""

from typing import NamedTuple

from clew.mcp.tools import read_brief
from clew.model.errors import InvalidInput, NotFound
from clew.service import Context, call

# Of so many newest sessions the one of this folder is looked for.
NEWEST = 100


class Prompt(NamedTuple):
    """One prompt: its arguments with what each is, and which of them it needs."""

    name: str
    title: str
    description: str
    takes: dict[str, str]
    needs: tuple[str, ...] = ()


CONTINUE = Prompt(
    "continue-where-we-left-off",
    "Continue where we left off",
    "Go on with earlier work: the brief of a session, or of the newest one of a project or of this folder.",
    {"session_id": "The session; without it, the newest.", "project": "Only sessions of this project."},
)
HAND_OVER = Prompt(
    "hand-over",
    "Hand over",
    "Write down what the next one needs, and pause the session.",
    {"session_id": "The session to hand over.", "to": "Who goes on: a person, an agent or a program."},
    ("session_id",),
)
PROMPTS = {one.name: one for one in (CONTINUE, HAND_OVER)}


def prompt(context: Context, name: str, given: dict[str, str], *, folder: str = "") -> str:
    """What a prompt says to the model."""
    known = PROMPTS.get(name)
    if known is None:
        raise InvalidInput(f"no prompt {name[:100]!r}; there are {', '.join(PROMPTS)}")
    if unknown := given.keys() - known.takes.keys():
        raise InvalidInput(f"{name} takes {', '.join(known.takes)}, not {', '.join(sorted(unknown))[:100]}")
    if missing := [one for one in known.needs if not given.get(one)]:
        raise InvalidInput(f"{name} needs {', '.join(missing)}")
    if known is HAND_OVER:
        return _hand_over(context, given["session_id"], given.get("to", ""))
    return _continue(context, given.get("session_id", "") or _newest(context, given.get("project", ""), folder))


def _newest(context: Context, project: str, folder: str) -> str:
    """The session to go on with: the newest of the project, and of the folder if one was worked in there."""
    given = {"limit": NEWEST, **({"project": project} if project else {})}
    found = call(context, "sessions", given)
    if not found:
        raise NotFound("no session to continue yet; begin with the tool open_session")
    here = [one for one in found if folder and one.folder == folder]
    return str((here or found)[0].id)


def _continue(context: Context, id: str) -> str:
    read = read_brief(context, id)
    session = read.values["session_id"]
    return (
        f"Continue the work of session {session} where it was left off. Its brief is below. Call recall with a word or "
        f"two of what is next, look at the files as they are now, and say in a few lines how you go on. If the session "
        f"is paused or closed, call resume_session; write with session_id {session}.\n\n{read.text}"
    )


def _hand_over(context: Context, id: str, to: str) -> str:
    read = read_brief(context, id)
    session = read.values["session_id"]
    # Whoever picks a prompt types this; a line is enough for a name.
    whom = f" to {' '.join(to.split())[:100]}" if to else ""
    return (
        f"Hand session {session} over{whom}. Compare its brief below with what was done since, then: call remember for "
        f"each fact that is missing, decide for each decision, note_progress with what is done, next and open, and "
        f"pause_session with a reason. Write so that somebody who saw nothing of this can go on.\n\n{read.text}"
    )
