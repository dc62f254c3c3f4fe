"""The files of a session, as they were at any event: the tree and each file, its snapshots, and what differs.

Which of the three is shown is `view`; `at` is the event, `path` the file or folder. All of it is in the address.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from clew.model.errors import ClewError
from clew.model.events import CallMade
from clew.model.figures import count
from clew.runtimes.calls import inputs_of, telling_of
from clew.server.http.problems import STATUS
from clew.server.web.action import Offer, offers
from clew.server.web.actions.session import rights_on
from clew.server.web.actions.workspace import AT_POINT
from clew.server.web.file_text import Shown, shown_text
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.workspace_changes import Changes, changes_between
from clew.server.web.rendering import link, one_line
from clew.service.sessions.line import SessionLine
from clew.service.workspaces.blame import Blamed, BlamedRange
from clew.service.workspaces.changes import Changed
from clew.service.workspaces.looking import PointInfo, WorkspaceFile
from clew.service.workspaces.tree import Tree

# The entries of one folder in the tree beside a file, and in the list of a folder.
BESIDE, LISTED = 300, 1000
DEEPEST = 12
# Snapshots on one page; for each, the names of what changed and the calls before it.
POINTS, NAMES, CALLS = 12, 8, 3
MOST_CHANGED = 2_000
READ_BACK = 40
# How long after a restore its undo is offered at once.
FRESH_US = 10 * 60 * 1_000_000


class Node(NamedTuple):
    """A folder or a file in the tree beside; a folder on the way to what is shown has what is in it."""

    name: str
    href: str
    is_folder: bool
    is_here: bool
    below: "list[Node]"
    more: int = 0


class CallBefore(NamedTuple):
    """A call that was made since the snapshot before."""

    seq: int
    tool: str
    telling: str


class BlamedLine(NamedTuple):
    """A line of a file; the first one of those with the same cause has it, and how many they are."""

    number: int
    text: Markup
    cause: BlamedRange | None
    lines: int


class Snapshot(NamedTuple):
    """A snapshot in the list: what changed with it, and the calls since the one before."""

    point: PointInfo
    changed: list[Changed]
    total: int
    is_first: bool
    calls: list[CallBefore]
    more_calls: str
    offers: list[Offer]
    refusal: str = ""


def workspace(request: PageRequest) -> Page:
    line: SessionLine = request.call("show", session=request.path["session"]).session
    view = request.query.get("view", "")
    view = view if view in VIEWS else next(iter(VIEWS))
    points: list[PointInfo] = request.call("workspace_log", session=line.id)
    at = _number(request.query.get("at", ""))
    base = f"/sessions/{line.id}/workspace"
    values: dict[str, Any] = {
        "line": line, "view": view, "points": points, "at": at, "base": base, "problem": "", "is_own": request.is_own,
        "restored": _restored(points, request.now), "undo": "", "point": None, "before": 0, "after": 0,
        "views": [(name, link(base, view=key if key != "files" else "", at=at), key == view)
                  for key, (name, _) in VIEWS.items() if name],
    }  # fmt: skip
    if values["restored"] and request.is_own:
        values["undo"] = link(f"{base}/restore", at=values["restored"][1].seq)
    if not points:
        return Page("workspace/page.html", {**values, "view": "none"})
    values |= _around(points, at)
    try:
        return Page("workspace/page.html", values | VIEWS[view][1](request, line, values))
    except ClewError as error:
        if STATUS.get(error.code, 500) >= 500:
            raise
        return Page("workspace/page.html", {**values, "view": "none", "problem": request.told(error)},
                    STATUS[error.code])  # fmt: skip


def _around(points: list[PointInfo], at: int) -> dict[str, Any]:
    """The snapshot that has the files of an event, and the ones before and after it."""
    whole = [point for point in points if _is_state(point) or point.seq == at]
    newest = next((number for number, point in enumerate(whole) if not at or point.seq <= at), len(whole))
    return {
        "point": whole[newest] if newest < len(whole) else None,
        "before": whole[newest + 1].seq if newest + 1 < len(whole) else 0,
        "after": whole[newest - 1].seq if newest > 0 else 0,
    }


def _is_state(point: PointInfo) -> bool:
    """Whether the session was in this state, and its files are there: a restore in part, or its undo, is none."""
    return bool(point.snapshot) and point.event != "undo" and not point.paths


def _restored(points: list[PointInfo], now: int) -> tuple[PointInfo, PointInfo] | None:
    """The restore that was done just now, and the snapshot that undoes it."""
    if len(points) < 2 or points[0].event != "restore" or points[1].event != "undo":
        return None
    return (points[0], points[1]) if now - points[0].at < FRESH_US else None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


# Files ----------------------------------------------------------------------------------------------------------------


def _files(request: PageRequest, line: SessionLine, values: dict[str, Any]) -> dict[str, Any]:
    """The tree, and beside it a folder or a file."""
    at, base, path = values["at"], values["base"], request.query.get("path", "")
    given = {"at": at} if at else {}
    found: Tree = request.call(
        "workspace_tree", session=line.id, path=path, limit=LISTED, after=request.query.get("after", ""), **given
    )

    def address(path: str, **more: Any) -> str:
        return link(base, at=at, path=path, **more)

    def folder(path: str) -> Tree:
        listed: Tree = request.call("workspace_tree", session=line.id, path=path, limit=BESIDE, **given)
        return listed

    shown: dict[str, Any] = {
        "tree": found, "path": found.path, "address": address, "file": None, "text": None, "image": "", "blamed": None,
        "crumbs": _crumbs(found.path, address), "nodes": _nodes(found, address, folder),
        "offers": _offers(request, line, found.seq, path=found.path),
        "raw": f"/v1{base}/raw?{urlencode({'path': found.path, 'at': found.seq})}",
        "tar": f"/v1{base}/tar?{urlencode({'path': found.path, 'at': found.seq})}",
    }  # fmt: skip
    if not found.is_folder:
        file: WorkspaceFile = request.call("workspace_cat", session=line.id, path=path, **given)
        shown |= {"file": file} | _content(request, file, f"{base}/image?{urlencode({'path': path, 'at': file.seq})}")
        if values["view"] == "blame" and file.kind == "file":
            shown |= _blame(request, line, file, shown["text"])
    return shown


def _blame(request: PageRequest, line: SessionLine, file: WorkspaceFile, text: Shown | None) -> dict[str, Any]:
    """Who wrote each line of the part that is shown; of a file without lines, who wrote it last."""
    blamed: Blamed = request.call("blame", path=file.path, session=line.id, at=file.seq)
    if text is None or not text.first or not blamed.lines:
        return {"blamed": blamed, "blamed_lines": []}
    end = text.first + len(text.lines)
    rows = []
    for part in blamed.ranges:
        first, last = max(part.first, text.first), min(part.last + 1, end)
        rows += [
            BlamedLine(
                number, text.lines[number - text.first], *((part, last - first) if number == first else (None, 0))
            )
            for number in range(first, last)
        ]
    return {"blamed": blamed, "blamed_lines": rows}


def _content(request: PageRequest, file: WorkspaceFile, image: str) -> dict[str, Any]:
    """A part of a text, or the address of an image."""
    if file.kind == "file" and file.is_binary:
        ending = file.path.rpartition(".")[2].lower()
        return {"image": image if ending in ("png", "jpg", "jpeg", "gif", "webp") else ""}
    text: Shown = shown_text(file.text, file.path, _number(request.query.get("from", "")))
    return {"text": text}


def _crumbs(path: str, address: Callable[..., str]) -> list[tuple[str, str]]:
    parts = path.split("/") if path else []
    return [(part, address("/".join(parts[: number + 1]))) for number, part in enumerate(parts)]


def _nodes(found: Tree, address: Callable[..., str], folder: Callable[[str], Tree]) -> list[Node]:
    """What is at the top, and in each folder on the way to what is shown."""
    parts = found.path.split("/") if found.path else []
    ways = ["/".join(parts[:number]) for number in range(len(parts) + 1)]
    opened = [way for way in ways if way != found.path or found.is_folder][:DEEPEST]
    below: list[Node] = []
    for way in reversed(opened):
        listed = found if way == found.path else folder(way)
        below = [
            Node(
                entry.name,
                address(entry.path),
                entry.kind == "folder",
                entry.path == found.path,
                below if entry.path in ways else [],
            )
            for entry in listed.entries[:BESIDE]
        ]
        if listed.total > len(below):
            below.append(Node("", address(way), False, False, [], listed.total - len(below)))
    return below


def _offers(request: PageRequest, line: SessionLine, at: int, **given: Any) -> list[Offer]:
    """What can be done with the files at an event, where the store is on the person's own machine."""
    if not request.is_own:
        return []
    rights = rights_on(request, line.id)
    return [
        offer._replace(address=link(offer.address, at=at, **given))
        for offer in offers(AT_POINT, request, line, rights, session=line.id)
    ]


# Snapshots ------------------------------------------------------------------------------------------------------------


def _snapshots(request: PageRequest, line: SessionLine, values: dict[str, Any]) -> dict[str, Any]:
    """The snapshots and restores, the newest first, each with what changed in it."""
    points: list[PointInfo] = values["points"]
    first = min(_number(request.query.get("after", "")), len(points))
    offered = _offers(request, line, 0)
    return {
        "snapshots": [
            _snapshot(request, line, points, number, offered)
            for number in range(first, min(first + POINTS, len(points)))
        ],
        "next": link(values["base"], view="snapshots", after=first + POINTS) if first + POINTS < len(points) else "",
    }


def _snapshot(
    request: PageRequest, line: SessionLine, points: list[PointInfo], number: int, offered: list[Offer]
) -> Snapshot:
    point = points[number]
    before = next((older for older in points[number + 1 :] if older.snapshot and older.seq < point.seq), None)
    calls, is_all = _calls(request, line, before.seq if before else 0, point.seq)
    more = count(len(calls) - CALLS, "call") if len(calls) > CALLS else ""
    made = Snapshot(
        point, [], 0, before is None, calls[-CALLS:], f"at least {more}" if more and not is_all else more,
        [offer._replace(address=link(offer.address, at=point.seq)) for offer in offered if point.snapshot],
    )  # fmt: skip
    if before is None or not point.snapshot:
        return made
    try:
        changed = _changed(request, line.id, before.seq, point.seq)
    except ClewError as error:
        if STATUS.get(error.code, 500) >= 500:
            raise
        return made._replace(refusal=request.told(error))
    return made._replace(changed=changed[:NAMES], total=len(changed))


def _changed(request: PageRequest, session: str, left: int, right: int) -> list[Changed]:
    found: list[Changed] = request.call(
        "workspace_diff", left=session, right=session, at=left, upto=right, flat=True, limit=MOST_CHANGED
    ).changes
    return [change for change in found if change.kind != "folder"] or found


def _calls(request: PageRequest, line: SessionLine, after: int, upto: int) -> tuple[list[CallBefore], bool]:
    """The calls since a snapshot, or the last of them; and whether these are all."""
    transcript = request.call("transcript", session=line.id, backward=upto, limit=READ_BACK)
    calls = [
        CallBefore(
            item.seq, item.event.body.tool, one_line(telling_of(inputs_of(item.event.body), transcript.cwd)[0], 80)
        )
        for turn in transcript.turns
        for item in turn.items
        if item.seq > after and item.event is not None and isinstance(item.event.body, CallMade)
    ]
    return calls, transcript.first <= after + 1 or not transcript.previous


# Changes --------------------------------------------------------------------------------------------------------------


def _changes(request: PageRequest, line: SessionLine, values: dict[str, Any]) -> dict[str, Any]:
    """What differs between two points: of this session, or of another one and this."""
    other = request.query.get("with", "").strip()
    left = line
    if other:
        left = request.call("show", session=other).session
    base, at = _number(request.query.get("base", "")), values["at"]
    if other or base or values["before"]:
        found = changes_between(
            request, left=left.id, right=line.id, base=base, at=at, path=request.query.get("path", ""),
            is_other=left.id != line.id,
        )  # fmt: skip
    else:
        found = Changes(0, 0, [], [], "There is no snapshot before this one; name another event, or another session.")

    def address(path: str) -> str:
        return link(values["base"], view="changes", at=at, base=base, path=path, **{"with": other})

    return {
        "changes": found, "left": left, "other": other, "base_seq": base, "path": request.query.get("path", ""),
        "address": address,
    }  # fmt: skip


VIEWS: dict[str, tuple[str, Callable[[PageRequest, SessionLine, dict[str, Any]], dict[str, Any]]]] = {
    "files": ("Files", _files), "blame": ("", _files), "snapshots": ("Snapshots", _snapshots),
    "changes": ("Changes", _changes),
}  # fmt: skip
