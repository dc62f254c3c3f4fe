"""Files: a tree of what agents touched; for each file who touched it, when, by which call, and the change that made."""

from typing import Any

from clew.model.errors import InvalidInput, NotFound
from clew.server.http.problems import STATUS
from clew.server.web.file_tree import File, projects_of
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.filters import filters_of
from clew.server.web.rendering import link
from clew.server.web.transcript_rows import Call, rows_of
from clew.service.find.files import FileTouch

NOT_FILTERS = frozenset({"limit", "by_file"})
# The files of the tree, and the sessions of one file.
FILES, SESSIONS = 400, 50
LATEST = 15


def files(request: PageRequest) -> Page:
    if request.query.get("part") == "change":
        return change(request)
    filters = filters_of("files", request.query, request.query.get("path", ""), but=NOT_FILTERS)
    file, path = request.query.get("file", ""), filters.words.strip("\"'")
    values: dict[str, Any] = {
        "path": path, "file": file, "given": filters.given, "chips": filters.chips("/files", path=path), "problem": "",
        "projects": [], "latest": [], "is_all": True, "history": [], "change": None,
    }  # fmt: skip
    try:
        shown, is_all = _files(request, path, filters.arguments())
        history = _history(request, file) if file else []
    except (InvalidInput, NotFound) as error:
        return Page("files/page.html", {**values, "problem": request.told(error)}, STATUS[error.code])
    kept = {name: value for name, value in filters.given.items() if name != "project"}

    def address(entry: File) -> str:
        """The address of a file in the tree."""
        given = {"path": path} if path else {}
        return link("/files", **given, **kept, project=filters.given.get("project", ""), of=entry.project,
                    file=entry.path)  # fmt: skip

    newest = next((touched for touched in history if touched.written), None)
    return Page(
        "files/page.html",
        {
            **values, "projects": projects_of(shown), "is_all": is_all, "address": address,
            "latest": sorted(shown, key=lambda file: -file.last_at)[:LATEST],
            "history": history, "of": request.query.get("of", ""), "newest": newest,
            "change": _change(request, newest.session, newest.written_seq) if newest else None,
        },
    )  # fmt: skip


def change(request: PageRequest) -> Page:
    """What one call did to a file: for a page that shows the rest already, and readable by itself."""
    session, seq = request.query.get("session", ""), request.query.get("seq", "")
    at = int(seq) if seq.isascii() and seq.isdigit() and 0 < len(seq) < 16 else 0
    if not at:
        raise NotFound(f"{seq[:20]!r} is not the number of an event")
    made = _change(request, session, at)
    return Page("files/change.html", {"change": made, "session": session, "seq": at})


def _files(request: PageRequest, path: str, arguments: dict[str, Any]) -> tuple[list[File], bool]:
    """The files that most sessions touched, of all or of those that a path names; and whether these are all."""
    found: list[FileTouch] = request.call("files", path=path, by_file=True, limit=FILES, **arguments)
    shown = [
        File(touched.project, touched.path, touched.sessions, touched.read, touched.written, touched.last_at)
        for touched in found
    ]
    return shown, len(found) < FILES


def _history(request: PageRequest, file: str) -> list[FileTouch]:
    """The sessions that touched a file, the latest first."""
    of = {"project": request.query["of"]} if request.query.get("of") else {}
    found: list[FileTouch] = request.call("files", path=file, limit=SESSIONS, **of)
    return [touched for touched in found if touched.path == file]


def _change(request: PageRequest, session: str, seq: int) -> Call | None:
    """The call at an event, with what it changed; none if a rewind took it back."""
    transcript = request.call("transcript", session=session, after=seq - 1, limit=2)
    turns = rows_of(transcript.turns, cwd=transcript.cwd, you=request.principal)
    return next((row for turn in turns for row in turn.rows if isinstance(row, Call) and row.seq == seq), None)
