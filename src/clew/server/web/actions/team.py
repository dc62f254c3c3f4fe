"""What can be done about people, teams, grants, keys and agents."""

from collections.abc import Callable

from clew.model.access import ROLES
from clew.model.errors import Denied
from clew.server.web.action import About, Action, Field, Kind
from clew.server.web.page_request import PageRequest
from clew.server.web.pages.permitted import permitted
from clew.server.web.rendering import link
from clew.server.web.rights_in_words import rights_in_words
from clew.service.access.credentials import KeyInfo

ROLE_CHOICES = (
    ("viewer", "viewer: see and read"), ("writer", "writer: also write, fork, hand off, export"),
    ("auditor", "auditor: see, and read who did what"), ("admin", "admin: everything"),
)  # fmt: skip
if {role for role, _ in ROLE_CHOICES} != ROLES.keys():
    raise AssertionError("the roles are not those that there are")
WHO = "Such as person:bo, agent:reviewer or team:core; bo is person:bo."
LONGEST_NAME = 200


def _page(name: str, back: str) -> Callable[[PageRequest], About]:
    return lambda request: About(name, back)


# Grants ---------------------------------------------------------------------------------------------------------------


def _grant(request: PageRequest) -> About:
    """A grant that is taken back; whoever may not list grants is ruled on when they act."""
    try:
        grants = request.call("access_list")
    except Denied:
        grants = []
    grant = next((grant for grant in grants if str(grant.id) == request.path["grant"]), None)
    if grant is None:
        return About(f"Grant {request.path['grant'][:20]}", "/access")
    place = grant.session or grant.project or (f"agent {grant.agent}" if grant.agent else "everything")
    return About(f"Grant {grant.id}", "/access", notes=(f"{grant.who} is {rights_in_words(grant.rights)} on {place}.",))


GRANT = Action(
    "/access/grant", "access_grant", "Grant rights",
    "Gives somebody rights on a project, or on everything. It counts within a second; a grant on the same place "
    "replaces the one before.",
    "Granted", _page("Access", "/access"),
    (
        Field("who", "Who", hint=WHO, needed=True, longest=LONGEST_NAME),
        Field("role", "May", Kind.CHOICE, choices=ROLE_CHOICES),
        Field("project", "On the project", hint="Empty: on everything.", longest=LONGEST_NAME),
        Field("agent", "Only on sessions of the agent", hint="Empty: of all.", longest=LONGEST_NAME),
        Field("days", "For how many days", Kind.NUMBER, "Empty: until you take it back."),
    ),
)  # fmt: skip
REVOKE = Action(
    "/access/grants/{grant}/revoke", "access_revoke", "Take back",
    "Takes the grant back. It counts no more within a second, also in streams that are open.", "Taken back", _grant,
    is_dangerous=True,
)  # fmt: skip

# Keys -----------------------------------------------------------------------------------------------------------------


def _key(request: PageRequest) -> About:
    """A key by its id: one of the reader's own, or for owners one of anybody's."""
    id = request.path["key"]
    others = (principal.name for principal in permitted(request, "principal_list").value or ())
    for holder in ("", *others):
        found = permitted(request, "key_list", **({"principal": holder} if holder else {}))
        if key := next((key for key in found.value or () if key.id == id), None):
            name = f"{key.label} of {key.principal}" if key.label else f"Key {id} of {key.principal}"
            return About(name, link("/keys", who=key.principal))
    return About(f"Key {id[:40]}", "/keys")


def is_key(key: KeyInfo) -> bool:
    return key.kind == "api_key"


KEY_CREATE = Action(
    "/keys/create", "key_create", "Make a key",
    "Makes an API key. Its text is shown once; it ends with the login or key that you make it with.", "The key",
    _page("Keys", "/keys"),
    (
        Field("principal", "For", hint=f"Empty: for you. {WHO}", longest=LONGEST_NAME),
        Field("label", "What it is for", hint="Such as ci, or laptop.", longest=100),
        Field("scopes", "Only for these rights", Kind.LIST, "Such as see read append; empty: all of its principal."),
        Field("project", "Only for the project", hint="Empty: for all.", longest=LONGEST_NAME),
        Field("days", "For how many days", Kind.NUMBER, "Empty: 90."),
    ),
    shows="keys/made.html", icon="key",
)  # fmt: skip
KEY_ROTATE = Action(
    "/keys/{key}/rotate", "key_rotate", "Rotate",
    "Makes a successor with the same rights. The old key stays good for a day, so that programs can change over.",
    "The new key", _key, (Field("days", "For how many days", Kind.NUMBER, "Empty: 90."),), shows="keys/made.html",
    is_possible=is_key,
)  # fmt: skip
KEY_REVOKE = Action(
    "/keys/{key}/revoke", "key_revoke", "Revoke",
    "Ends it for good, and all that were made with it: every program that uses one of them is refused within a second.",
    "Revoked", _key, is_dangerous=True,
)  # fmt: skip

# People ---------------------------------------------------------------------------------------------------------------

PRINCIPAL_ADD = Action(
    "/people/add", "principal_add", "Add somebody",
    "Adds a person, an agent or a service. They may do nothing until rights are granted to them.", "Added",
    _page("People", "/people"),
    (
        Field("principal", "Who", hint="Such as bo, agent:reviewer or service:ci.", needed=True, longest=LONGEST_NAME),
        Field("title", "Name in full", longest=LONGEST_NAME),
    ),
    icon="people",
)  # fmt: skip
TEAM_ADD = Action(
    "/people/join", "team_add", "Add to a team", "What is granted to a team counts for each of its members.",
    "They are in the team", _page("People", "/people"),
    (
        Field("name", "Team", hint="Such as core; a team begins with its first member.", needed=True,
              longest=LONGEST_NAME),
        Field("principal", "Who", hint=WHO, needed=True, longest=LONGEST_NAME),
    ),
)  # fmt: skip
TEAM_REMOVE = Action(
    "/people/leave", "team_remove", "Take out of a team",
    "What is granted to the team counts for them no more within a second.", "They are out of the team",
    _page("People", "/people"),
    (
        Field("name", "Team", needed=True, longest=LONGEST_NAME),
        Field("principal", "Who", needed=True, longest=LONGEST_NAME),
    ),
)  # fmt: skip
DISABLE = Action(
    "/people/disable", "principal_disable", "Shut out",
    "Their keys and logins are refused within a second, until somebody lets them in again.", "They are shut out",
    _page("People", "/people"), (Field("principal", "Who", needed=True, longest=LONGEST_NAME),), is_dangerous=True,
    is_possible=lambda principal: principal is not None and not principal.disabled,
)  # fmt: skip
ENABLE = Action(
    "/people/enable", "principal_enable", "Let in again", "Their keys and logins are good again.",
    "They are let in again", _page("People", "/people"),
    (Field("principal", "Who", needed=True, longest=LONGEST_NAME),),
    is_possible=lambda principal: principal is not None and principal.disabled,
)  # fmt: skip
ACCESS_END = Action(
    "/people/end", "access_end", "End all access",
    "Ends every key and login, every grant and every membership of theirs at once. Their sessions stay.", "It is ended",
    _page("People", "/people"), (Field("principal", "Who", needed=True, longest=LONGEST_NAME),), is_dangerous=True,
    next=lambda request, held: "/people",
)  # fmt: skip

# Agents ---------------------------------------------------------------------------------------------------------------

AGENT_REGISTER = Action(
    "/agents/register", "agent_register", "Register an agent",
    "Names an agent. Sessions that come in and fit its rule are its own from then on; earlier ones stay as they are.",
    "Registered", _page("Agents", "/agents"),
    (
        Field("name", "Name", needed=True, longest=100),
        Field("project", "Project", hint="Empty: all.", longest=LONGEST_NAME),
        Field("runtime", "Program that drives it", hint="Such as claude-code.", longest=100),
        Field("model", "Model", longest=200),
        Field("match_runtime", "Sessions of this program are its own", longest=100),
        Field("match_path", "if they work below this path", hint="Such as /home/ada/shop; * stands for anything.",
              longest=1000),
    ),
    icon="agent",
)  # fmt: skip
AGENT_REMOVE = Action(
    "/agents/remove", "agent_remove", "Remove", "Removes what is registered of the agent; its sessions stay.",
    "Removed", _page("Agents", "/agents"),
    (Field("name", "Name", needed=True, longest=100), Field("project", "Project", longest=LONGEST_NAME)),
    is_dangerous=True, is_possible=lambda agent: agent is not None,
)  # fmt: skip

ACCESS = (GRANT,)
GRANTS = (REVOKE,)
KEYS = (KEY_CREATE,)
EACH_KEY = (KEY_ROTATE, KEY_REVOKE)
PEOPLE = (PRINCIPAL_ADD, TEAM_ADD, TEAM_REMOVE)
EACH_PERSON = (DISABLE, ENABLE, ACCESS_END)
AGENTS = (AGENT_REGISTER,)
EACH_AGENT = (AGENT_REMOVE,)
TEAM = (*ACCESS, *GRANTS, *KEYS, *EACH_KEY, *PEOPLE, *EACH_PERSON, *AGENTS, *EACH_AGENT)
