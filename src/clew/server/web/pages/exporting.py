"""Taking a session along: the forms there are, and the file of each."""

import io
import re
import zipfile
from collections.abc import Iterable
from urllib.parse import urlencode

from clew.model.errors import NotFound, TooLarge
from clew.server.web.page_request import Download, Page, PageRequest
from clew.service.handover.export import File
from clew.service.handover.own_forms import Form

FORMS = {
    Form.MARKDOWN: ("Markdown", "A document to read, with prompts, answers and calls."),
    Form.HTML: ("Web page", "One page that needs nothing else, to read or to hand on."),
    Form.JSONL: ("clew's events", "Every event, line by line; clew import takes it in again."),
    Form.NATIVE: ("The program's own files", "What the program wrote, even after it deleted them."),
    Form.ATIF: ("ATIF", "A trajectory for evaluation and training programs."),
    Form.COPILOT: ("Copilot", "The form in which Copilot hands sessions on."),
}
if FORMS.keys() != set(Form):
    raise AssertionError("a form of export without words")
# What a session was named by a program is no name for a file elsewhere.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST_NAME = 120
# The archive is made in memory; more sessions at once are for the command line, which writes files.
MOST_AT_ONCE = 50
MOST_BYTES = 256 * 1024 * 1024


def exporting(request: PageRequest) -> Page:
    line = request.call("show", session=request.path["session"]).session
    path = f"/sessions/{line.id}/export"
    forms = [(name, about, f"{path}/{form}") for form, (name, about) in FORMS.items()]
    return Page("exporting/page.html", {"line": line, "forms": forms})


def export_file(request: PageRequest) -> Download:
    """The session in a form; several files come in one archive."""
    session, form = request.path["session"], request.path["form"]
    files: list[File] = request.call("export", session=session, form=form)
    if not files:
        raise NotFound(f"session {session[:40]} has no files of this form", missing="export")
    if len(files) == 1:
        return Download(safe_name(files[0].name), files[0].data)
    archive = _archive((f"{number:02}-{safe_name(file.name)}", file.data) for number, file in enumerate(files, 1))
    return Download(f"{safe_name(session)}-{safe_name(form)}.zip", archive)


def exporting_many(request: PageRequest) -> Page | Download:
    """The forms for the chosen sessions; with `as`, all of them in that form, each in a folder of one archive."""
    sessions = list(dict.fromkeys(value for name, value in request.given if name == "session"))
    refusal = ""
    if not sessions:
        refusal = "No session is chosen. Tick the boxes of some in the list, and try again."
    elif len(sessions) > MOST_AT_ONCE:
        refusal = f"{len(sessions)} sessions are chosen; at most {MOST_AT_ONCE} fit into one archive."
    if not refusal and (form := request.query.get("as")):
        return _export_of(request, sessions, form)
    chosen = [("session", id) for id in sessions]
    forms = [
        (name, about, f"/bulk/export?{urlencode([('as', form), *chosen])}") for form, (name, about) in FORMS.items()
    ]
    return Page("exporting/many.html", {"count": len(sessions), "forms": forms, "refusal": refusal})


def _export_of(request: PageRequest, sessions: list[str], form: str) -> Download:
    files: list[tuple[str, File]] = []
    left = MOST_BYTES
    for id in sessions:
        for file in request.call("export", session=id, form=form):
            left -= len(file.data)
            if left < 0:
                raise TooLarge(
                    f"these sessions take more than {MOST_BYTES:,} bytes in this form; choose fewer, or use "
                    "clew export with --to and a folder"
                )
            files.append((id, file))
    if not files:
        raise NotFound("none of these sessions has files of this form", missing="export")
    named = ((f"{safe_name(id)}/{n:02}-{safe_name(file.name)}", file.data) for n, (id, file) in enumerate(files, 1))
    return Download(f"{len(sessions)}-sessions-{safe_name(form)}.zip", _archive(named))


def safe_name(name: str) -> str:
    """The last part of a name, in characters that mean nothing to any system."""
    last = _UNSAFE.sub("-", name.replace("\\", "/").rpartition("/")[2]).strip(".-")
    return last[-LONGEST_NAME:].lstrip(".-") or "session"


def _archive(files: Iterable[tuple[str, bytes]]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return made.getvalue()
