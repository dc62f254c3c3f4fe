"""Prompts: a person picks one to continue earlier work or to hand over their own."""

from typing import NamedTuple

from clew.mcp.tools import read_brief
from clew.model.errors import InvalidInput, NotFound
from clew.service import Context, call

# How many of the newest sessions are searched for one of this folder.
NEWEST = 100


class Prompt(NamedTuple):
    """One prompt: its arguments with their descriptions, and which of them are required."""

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
PROMPTS = {prompt.name: prompt for prompt in (CONTINUE, HAND_OVER)}


def prompt(context: Context, name: str, given: dict[str, str], *, folder: str = "") -> str:
    """The text of a prompt for the llm."""
    prompt = PROMPTS.get(name)
    if prompt is None:
        raise InvalidInput(f"no prompt {name[:100]!r}; there are {', '.join(PROMPTS)}")
    if unknown := given.keys() - prompt.takes.keys():
        raise InvalidInput(f"{name} takes {', '.join(prompt.takes)}, not {', '.join(sorted(unknown))[:100]}")
    if missing := [argument for argument in prompt.needs if not given.get(argument)]:
        raise InvalidInput(f"{name} needs {', '.join(missing)}")
    if prompt is HAND_OVER:
        return _hand_over(context, given["session_id"], given.get("to", ""))
    return _continue(context, given.get("session_id", "") or _newest(context, given.get("project", ""), folder))


def _newest(context: Context, project: str, folder: str) -> str:
    """The session to continue: the newest of the project, or of this folder if it has one."""
    given = {"limit": NEWEST, **({"project": project} if project else {})}
    sessions = call(context, "sessions", given)
    if not sessions:
        raise NotFound("no session to continue yet; begin with the tool open_session")
    in_folder = [session for session in sessions if folder and session.folder == folder]
    return str((in_folder or sessions)[0].id)


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
    # A person types this; one line is enough for a name.
    whom = f" to {' '.join(to.split())[:100]}" if to else ""
    return (
        f"Hand session {session} over{whom}. Compare its brief below with what was done since, then: call remember for "
        f"each fact that is missing, decide for each decision, note_progress with what is done, next and open, and "
        f"pause_session with a reason. Write so that somebody who saw nothing of this can go on.\n\n{read.text}"
    )
