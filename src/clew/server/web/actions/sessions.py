"""What can be done with many sessions at once, from the list; each is what the page of one session does."""

from clew.model.figures import count
from clew.server.web.action import About, Action, Field, Kind, Servers
from clew.server.web.actions.session import REASON, ROLE_CHOICES
from clew.server.web.page_request import PageRequest

EACH = "session"
MOST_NAMED = 5


def _about(request: PageRequest) -> About:
    """How many are chosen, and what the first of them are called."""
    chosen = list(dict.fromkeys(value for name, value in request.given if name == EACH))
    refusal = "" if chosen else "No session is chosen. Tick the boxes of some in the list, and try again."
    titles = [request.call("show", session=id).session.title or id[:10] for id in chosen[:MOST_NAMED]]
    named = "; ".join(titles) + (f"; and {len(chosen) - MOST_NAMED:,} more" if len(chosen) > MOST_NAMED else "")
    return About(count(len(chosen), "session"), "/sessions", notes=(named,) if named else (), refusal=refusal)


TAG = Action(
    "/bulk/tag", "tag", "Tag", "Puts tags on each of these sessions, for all who see them.", "Tagged", _about,
    (Field("tags", "Tags", Kind.LIST, "Such as work or client/acme, with blanks between them.", needed=True),),
    each=EACH,
)  # fmt: skip
UNTAG = Action(
    "/bulk/untag", "tag", "Take tags away", "Takes tags off each of these sessions, for all who see them.",
    "Taken away", _about,
    (Field("tags", "Tags", Kind.LIST, "As they are written, with blanks between them.", needed=True),),
    fixed={"remove": True}, each=EACH,
)  # fmt: skip
STAR = Action("/bulk/star", "star", "Star", "Marks each of these sessions for you; nobody else sees it.", "Starred",
              _about, each=EACH)  # fmt: skip
ARCHIVE = Action(
    "/bulk/archive", "archive", "Archive",
    "From then on these sessions are read-only: they can be read, labelled and forked, and not be resumed.", "Archived",
    _about, (REASON,), is_dangerous=True, each=EACH,
)  # fmt: skip
SHARE = Action(
    "/bulk/share", "share", "Share", "Gives a person, an agent or a team rights on each of these sessions.", "Shared",
    _about,
    (
        Field("who", "With", hint="Such as person:bo@example.org or team:backend.", needed=True, longest=200),
        Field("role", "They may", Kind.CHOICE, choices=ROLE_CHOICES),
    ),
    servers=Servers.TEAM, each=EACH,
)  # fmt: skip

SESSIONS = (TAG, UNTAG, STAR, ARCHIVE, SHARE)
