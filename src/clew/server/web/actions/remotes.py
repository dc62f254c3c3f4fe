"""What can be done about the servers that sessions of this machine are shared with."""

from clew.server.web.action import About, Action, Field, Kind, Servers
from clew.server.web.page_request import PageRequest
from clew.service.replication.remote_list import RemoteInfo
from clew.service.replication.remotes import LONGEST_NAME

_PAGE = "/settings?part=remotes"
_NAME = Field("name", "Server", needed=True, longest=LONGEST_NAME)


def _servers(request: PageRequest) -> About:
    return About("Remotes", _PAGE)


def _sharing(request: PageRequest) -> About:
    names = tuple((line.project, line.project) for line in request.call("project_list"))
    refusal = "" if names else "There is no project on this machine yet."
    return About("Remotes", _PAGE, choices={"project": names}, refusal=refusal)


def _shared(request: PageRequest) -> About:
    name = request.query.get("name") or next((value for key, value in request.given if key == "name"), "")
    remote = next((remote for remote in request.call("remotes") if remote.name == name), None)
    if remote is None:
        return About("Remotes", _PAGE, refusal="There is no such server any more.")
    choices = [(project, f"project {project}") for project in remote.projects]
    choices += [(id, f"session {id[:10]}") for id in remote.sessions]
    return About(name, _PAGE, choices={"what": tuple(choices)}, refusal="" if choices else "Nothing is shared with it.")


def is_shared_with(remote: RemoteInfo | None) -> bool:
    return remote is not None and bool(remote.projects or remote.sessions)


REMOTE_ADD = Action(
    "/settings/remotes/add", "remote_add", "Add a server",
    "Asks the server who you are there and keeps its address and your key on this machine, the key in a file that only "
    "you can read. Nothing is shared with it yet.",
    "The server is added", _servers,
    (
        Field("url", "Address", hint="Such as https://clew.example.org.", needed=True, longest=1000),
        Field("key", "API key", Kind.SECRET, "Its owner makes one for you: clew key create.", needed=True,
              longest=1000),
        Field("name", "Name", hint="A short word for it here. Empty: team.", longest=LONGEST_NAME),
    ),
    servers=Servers.OWN,
)  # fmt: skip
REMOTE_SHARE = Action(
    "/settings/remotes/share", "remote_share", "Share a project",
    "Sends the sessions of the project there from now on, with secrets masked, also those that are here already. "
    "Private sessions stay.",
    "The project is shared", _sharing, (Field("project", "Project", Kind.CHOICE, needed=True), _NAME),
    servers=Servers.OWN, is_possible=lambda remote: remote is not None,
)  # fmt: skip
REMOTE_UNSHARE = Action(
    "/settings/remotes/unshare", "remote_unshare", "Stop sharing",
    "Sends nothing more of it. What was pushed stays on the server.", "It is shared no more", _shared,
    (Field("what", "What", Kind.CHOICE, needed=True), _NAME), servers=Servers.OWN, is_possible=is_shared_with,
)  # fmt: skip
REMOTE_PUSH = Action(
    "/settings/remotes/push", "push", "Push now",
    "Sends what is new of all that is shared with it, with secrets masked. clew up and clew capture --watch do so by "
    "themselves.",
    "Pushed", _servers, (Field("remote", "Server", needed=True, longest=LONGEST_NAME),), servers=Servers.OWN,
    is_possible=is_shared_with, next=lambda request, pushed: _PAGE,
)  # fmt: skip
REMOTE_REMOVE = Action(
    "/settings/remotes/remove", "remote_remove", "Remove",
    "Removes the server and its key from this machine. What was pushed stays there.", "The server is removed", _servers,
    (_NAME,), servers=Servers.OWN, is_dangerous=True, is_possible=lambda remote: remote is not None,
)  # fmt: skip

REMOTES = (REMOTE_ADD,)
EACH_REMOTE = (REMOTE_PUSH, REMOTE_SHARE, REMOTE_UNSHARE, REMOTE_REMOVE)
ALL_REMOTES = (*REMOTES, *EACH_REMOTE)
