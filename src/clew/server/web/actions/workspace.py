"""What can be done with the files of a session, on the machine of the person who asks and nowhere else."""

from typing import Any

from clew.model.errors import ClewError
from clew.model.figures import count
from clew.server.http.problems import STATUS
from clew.server.web.action import About, Action, Change, Field, Kind, Servers
from clew.server.web.actions.session import takes
from clew.server.web.page_request import PageRequest
from clew.server.web.rendering import link
from clew.service.sessions.line import SessionLine
from clew.service.workspaces.changes import Changed

SIGNS = {"added": "+", "removed": "-", "changed": "~", "mode": "m", "kind": "!"}
WORDS = {"added": "write", "removed": "remove", "changed": "replace", "mode": "change the mode", "kind": "replace"}
AT = Field("at", "As the files were at event", Kind.NUMBER, "Empty: the last snapshot.")
# A name may have blanks, so it is one.
PATHS = Field("paths", "Only this file or folder", hint="Below the folder of the session; empty: all.", longest=4000)


def _line(request: PageRequest) -> SessionLine:
    line: SessionLine = request.call("show", session=request.path["session"]).session
    return line


def _given(request: PageRequest) -> dict[str, Any]:
    """What the form, or the address, says of the files: from the address it can be anything."""
    given = dict(request.given)
    at, path = given.get("at", "").strip(), given.get("paths", given.get("path", ""))
    asked: dict[str, Any] = {"at": int(at)} if at.isascii() and at.isdigit() and int(at[:18]) > 0 else {}
    return asked | ({"paths": [path]} if path else {})


def _restoring(request: PageRequest) -> About:
    """What a restore would change, found out now, by comparing the folder."""
    line = _line(request)
    given = _given(request)
    about = About(
        line.title or line.id[:10], link(f"/sessions/{line.id}/workspace", at=given.get("at", 0)),
        values={"at": str(given.get("at", "")), "paths": "".join(given.get("paths", []))},
        changes_of=frozenset({"at", "paths"}),
    )  # fmt: skip
    try:
        changes: list[Changed] = request.call("workspace_preview", session=line.id, **given)
    except ClewError as error:
        if STATUS.get(error.code, 500) >= 500:
            raise
        return about._replace(refusal=f"{request.told(error)}. Check out writes the files into a new folder instead.")
    if not changes:
        return about._replace(refusal="The folder is as it was then; there is nothing to restore.")
    counts = {word: sum(WORDS[change.change] == word for change in changes) for word in dict.fromkeys(WORDS.values())}
    words = ", ".join(f"{word} {count(number, 'path')}" for word, number in counts.items() if number)
    return about._replace(
        notes=(f"It will {words}.",),
        changes=tuple(
            Change(SIGNS[change.change], change.path + ("/" if change.kind == "folder" else ""), _size(change))
            for change in changes
        ),
    )  # fmt: skip


def _size(change: Changed) -> str:
    sizes = [f"{size:,}" for size in (change.before, change.after) if size is not None]
    return " → ".join(sizes) + (" bytes" if sizes else "") + (f" mode {change.mode}" if change.mode else "")


def _checking_out(request: PageRequest) -> About:
    line = _line(request)
    given = _given(request)
    back = link(f"/sessions/{line.id}/workspace", at=given.get("at", 0))
    return About(line.title or line.id[:10], back, values={"at": str(given.get("at", ""))})


def _restored(request: PageRequest, made: Any) -> str:
    return f"/sessions/{request.path['session']}/workspace"


RESTORE = Action(
    "/sessions/{session}/workspace/restore", "workspace_restore", "Restore",
    "Makes the files in the folder of the session as they were then. What no snapshot takes in stays. What is there "
    "now is kept first, so that it can be undone.",
    "Restored", _restoring,
    (
        AT, PATHS,
        Field("force", "Also while the agent of another session is at work there", Kind.YES),
    ),
    next=_restored, is_possible=takes("work"), servers=Servers.OWN,
)  # fmt: skip
CHECKOUT = Action(
    "/sessions/{session}/workspace/checkout", "workspace_checkout", "Check out",
    "Writes the files of the session into a new folder, which is the session's own from then on. No folder with "
    "something in it is touched.",
    "Checked out", _checking_out,
    (Field("folder", "New folder", hint="Such as ~/copies/shop.", needed=True, longest=4000), AT),
    shows="workspace/out.html", servers=Servers.OWN,
)  # fmt: skip

AT_POINT = (RESTORE, CHECKOUT)
WORKSPACE = AT_POINT
