"""What can be done with a session from its page."""

from collections.abc import Callable
from typing import Any

from clew.model.access import ROLES
from clew.model.errors import ClewError
from clew.model.figures import count
from clew.model.labels import LONGEST_NOTE, LONGEST_TITLE
from clew.model.session import LIFECYCLE
from clew.server.web.action import About, Action, Field, Kind, Servers
from clew.server.web.page_request import PageRequest
from clew.service.access.grants import Explained
from clew.service.handover.continuation import Continuation
from clew.service.knowledge.terms import LONGEST, Holds
from clew.service.sessions.line import SessionLine
from clew.service.sessions.show import SessionDetail

LONGEST_TYPED = 60
SCOPES = {
    Holds.SESSION: "this session", Holds.PROJECT: "its project", Holds.EVERYWHERE: "everywhere",
}  # fmt: skip
OUTCOMES = (("completed", "completed"), ("failed", "failed"), ("abandoned", "abandoned"))
ROLE_CHOICES = (("viewer", "read it"), ("writer", "read it and work on it"), ("admin", "everything"))
if {role for role, _ in ROLE_CHOICES} - ROLES.keys():
    raise AssertionError("a role that nobody can be given")


def takes(step: str) -> Callable[[SessionLine], bool]:
    """Whether a session takes an event of this step in its state."""
    return lambda line: step in LIFECYCLE.get(line.state, {})


def rights_on(request: PageRequest, session: str) -> frozenset[str]:
    """The rights that the reader has on a session."""
    return frozenset(ruling.right for ruling in access_to(request, session) if ruling.allowed)


def access_to(request: PageRequest, session: str) -> list[Explained]:
    """Which rights the reader has on a session, and why; who holds a link is told nothing."""
    try:
        explained: list[Explained] = request.call("access_explain", who=request.principal, what=session)
    except ClewError:
        return []
    return explained


# What an action is about ----------------------------------------------------------------------------------------------


def _about(
    step: str = "", add: Callable[[SessionDetail], dict[str, Any]] = lambda detail: {}
) -> Callable[[PageRequest], About]:
    """Reads the session; with a step, the action is not possible in a state that takes no event of that step."""

    def about(request: PageRequest) -> About:
        detail: SessionDetail = request.call("show", session=request.path["session"])
        line = detail.session
        refusal = "" if not step or takes(step)(line) else _out_of_step(line)
        return About(line.title or line.id[:10], f"/sessions/{line.id}", refusal=refusal)._replace(**add(detail))

    return about


def _out_of_step(line: SessionLine) -> str:
    return (
        f"The session is {line.state} now, so this is not possible any more. Somebody may have acted at once with you."
    )


def _erasing(detail: SessionDetail) -> dict[str, Any]:
    line = detail.session
    notes = [f"It has {line.head:,} events, which no copy of clew brings back once they are gone."]
    if detail.forks:
        notes.append(
            f"{count(len(detail.forks), 'session')} {'were' if len(detail.forks) > 1 else 'was'} forked from it and "
            "read its events: erase them too, or nothing is done."
        )
    leaves_out = frozenset[str]() if detail.forks else frozenset({"with_forks"})
    return {"notes": tuple(notes), "typed": words_to_type(line), "leaves_out": leaves_out}


def words_to_type(line: SessionLine) -> str:
    """What a person types to confirm: the title if it can be typed, else the beginning of the id."""
    title = " ".join(line.title.split())
    return title if title.isprintable() and title.isascii() and 0 < len(title) <= LONGEST_TYPED else line.id[:10]


def _forking(detail: SessionDetail) -> dict[str, Any]:
    line = detail.session
    return {"notes": (f"This session has the events 1 to {line.head:,}; it stays as it is.",)}


def _title(detail: SessionDetail) -> dict[str, Any]:
    return {"values": {"title": detail.session.title}}


def _tags(detail: SessionDetail) -> dict[str, Any]:
    return {"choices": {"tags": tuple((tag, tag) for tag in detail.session.tags)}}


def _closing(detail: SessionDetail) -> dict[str, Any]:
    line = detail.session
    return {"notes": (f"{line.holder} is writing to it now and is stopped by that.",) if line.holder else ()}


def _writing(request: PageRequest) -> About:
    made: Continuation = request.call("continuation", session=request.path["session"])
    line = request.call("show", session=made.session).session
    programs = tuple((program.runtime, program.title) for program in made.programs)
    return About(line.title or line.id[:10], f"/sessions/{line.id}", choices={"runtime": programs})


def _of(result: Any) -> str:
    return f"/sessions/{result.id}"


REASON = Field("reason", "Why", hint="Kept in the log; may be empty.", longest=1000)

FORK = Action(
    "/sessions/{session}/fork", "fork", "Fork",
    "Makes a new session that shares this one's events up to a place of your choice and goes its own way from there. "
    "No files are changed.",
    "Forked: this is the new session", _about(add=_forking),
    (
        Field("at", "Last event to share", Kind.NUMBER, "Empty: all there are."),
        Field("title", "Title", hint="Empty: the title of this session.", longest=LONGEST_TITLE),
    ),
    next=lambda request, made: _of(made), is_possible=takes("label"), icon="fork",
)  # fmt: skip
RENAME = Action(
    "/sessions/{session}/rename", "title", "Rename",
    "Gives the session a title of your own, for all who see it. Its program does not replace it.",
    "Renamed", _about("label", _title), (Field("title", "Title", needed=True, longest=LONGEST_TITLE),),
    is_possible=takes("label"),
)  # fmt: skip
TAG = Action(
    "/sessions/{session}/tag", "tag", "Tag",
    "Puts tags on the session, for all who see it; lists can be filtered by them.",
    "Tagged", _about("label"),
    (Field("tags", "Tags", Kind.LIST, "Such as work or client/acme, with blanks between them.", needed=True),),
    is_possible=takes("label"),
)  # fmt: skip
UNTAG = Action(
    "/sessions/{session}/untag", "tag", "Take a tag away", "Takes a tag off the session, for all who see it.",
    "Taken away", _about("label", _tags), (Field("tags", "Tag", Kind.CHOICE, needed=True),), fixed={"remove": True},
    is_possible=lambda line: bool(line.tags) and takes("label")(line),
)  # fmt: skip
STAR = Action(
    "/sessions/{session}/star", "star", "Star", "Marks the session for you; nobody else sees it.", "Starred",
    _about("label"), asks=False, is_possible=lambda line: not line.starred and takes("label")(line), icon="star",
)  # fmt: skip
UNSTAR = Action(
    "/sessions/{session}/unstar", "star", "Take the star away", "Takes your star away.", "The star is gone",
    _about("label"), fixed={"remove": True}, asks=False,
    is_possible=lambda line: line.starred and takes("label")(line), icon="starred",
)  # fmt: skip
NOTE = Action(
    "/sessions/{session}/note", "note", "Note", "Adds a note to the session. Whoever may read the session reads it.",
    "Noted", _about("label"), (Field("text", "Note", Kind.TEXT, needed=True, longest=LONGEST_NOTE),),
    is_possible=takes("label"),
)  # fmt: skip
NOTE_REMOVE = Action(
    "/sessions/{session}/notes/{note}/remove", "note_remove", "Remove the note",
    "Removes the note; the log keeps that it was there.", "The note is removed", _about("label"),
    is_possible=takes("label"),
)  # fmt: skip
REMEMBER = Action(
    "/sessions/{session}/remember", "remember", "Remember a fact",
    "Adds a fact to what the session knows. Agents that recall are given it, as something that you said.",
    "Remembered", _about("knowledge"),
    (
        Field("text", "Fact", Kind.TEXT, needed=True, longest=LONGEST),
        Field("scope", "Where it holds", Kind.CHOICE, choices=tuple((str(name), SCOPES[name]) for name in Holds)),
    ),
    is_possible=takes("knowledge"),
)  # fmt: skip
PAUSE = Action(
    "/sessions/{session}/pause", "pause", "Pause",
    "The session takes nothing more until somebody resumes it. An agent that writes to it through clew is refused; "
    "a program that runs by itself is not stopped.",
    "Paused", _about("paused"), (REASON,), is_possible=takes("paused"),
)  # fmt: skip
RESUME = Action(
    "/sessions/{session}/resume", "resume", "Resume", "The session takes events again, exactly as it was left.",
    "Resumed", _about("resumed"), (REASON,), is_possible=takes("resumed"),
)  # fmt: skip
CLOSE = Action(
    "/sessions/{session}/close", "close", "Close",
    "Ends the session with an outcome. It can be read, forked and resumed later.", "Closed",
    _about("closed", _closing),
    (
        Field("outcome", "Outcome", Kind.CHOICE, choices=OUTCOMES),
        Field("summary", "Summary", Kind.TEXT, "What came of it; may be empty.", longest=10_000),
    ),
    is_possible=takes("closed"),
)  # fmt: skip
ARCHIVE = Action(
    "/sessions/{session}/archive", "archive", "Archive",
    "From then on the session is read-only: it can be read, labelled and forked, and not be resumed.", "Archived",
    _about("archived"), (REASON,), is_dangerous=True, is_possible=takes("archived"),
)  # fmt: skip
SHARE = Action(
    "/sessions/{session}/share", "share", "Share with somebody",
    "Gives a person, an agent or a team rights on this session alone.", "Shared", _about(),
    (
        Field("who", "With", hint="Such as person:bo@example.org or team:backend.", needed=True, longest=200),
        Field("role", "They may", Kind.CHOICE, choices=ROLE_CHOICES),
        Field("days", "For how many days", Kind.NUMBER, "Empty: until you take it back."),
    ),
    is_possible=takes("label"), servers=Servers.TEAM,
)  # fmt: skip
LINK = Action(
    "/sessions/{session}/link", "link", "Share by link",
    "Makes a link. Whoever has it reads this session, its secrets masked, until the link ends or is revoked.",
    "The link", _about(), (Field("days", "Days until it ends", Kind.NUMBER, "At most 365; empty: 7."),),
    shows="session/link.html", is_possible=takes("label"), servers=Servers.TEAM,
)  # fmt: skip
HIDE = Action(
    "/sessions/{session}/private", "privacy", "Make private",
    "Only you, and those whom you share it with, see the session from then on.", "It is private now", _about(),
    fixed={"private": True}, is_possible=lambda line: not line.private and takes("label")(line),
    servers=Servers.TEAM,
)  # fmt: skip
OPEN = Action(
    "/sessions/{session}/public", "privacy", "End privacy",
    "All who may see the project see the session from then on.", "It is not private any more", _about(),
    fixed={"private": False}, is_possible=lambda line: line.private and takes("label")(line), servers=Servers.TEAM,
)  # fmt: skip
ERASE = Action(
    "/sessions/{session}/erase", "erase", "Erase",
    "Removes everything that was said and done in the session for good, from the log, the search and the copies of "
    "files. The record that it existed and was erased stays.",
    "Erased", _about("erased", _erasing),
    (
        REASON,
        Field("with_forks", "Erase the sessions that were forked from it, too", Kind.YES),
    ),
    is_dangerous=True, is_possible=takes("erased"),
)  # fmt: skip

WRITE = Action(
    "/sessions/{session}/write", "materialise", "Write it on this machine",
    "Writes the session into the folder of the program, as a new session of its own, and opens a fork for it here. "
    "Where it ran in that program last, its own file is used, or put back if it is gone. No file that is there is "
    "changed and nothing is run; the command to go on with is shown. In a terminal, clew undo takes it back.",
    "Written", _writing,
    (
        Field("runtime", "Program", Kind.CHOICE, needed=True),
        Field("cwd", "Folder to work in", hint="Empty: that of the session.", longest=4000),
        Field("at", "Last event to go on from", Kind.NUMBER, "Empty: the last there is."),
    ),
    shows="session/written.html", is_possible=takes("label"), servers=Servers.OWN,
)  # fmt: skip

SESSION = (
    FORK, RENAME, STAR, UNSTAR, TAG, UNTAG, NOTE, NOTE_REMOVE, REMEMBER, PAUSE, RESUME, CLOSE, ARCHIVE, SHARE, LINK,
    HIDE, OPEN, ERASE, WRITE,
)  # fmt: skip
# What is not offered under the title has its place elsewhere in the page.
ON_PAGE = tuple(action for action in SESSION if action not in (NOTE_REMOVE, WRITE))
