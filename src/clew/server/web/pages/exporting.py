"""Taking a session along: the forms there are, and the file of each."""

import io
import re
import zipfile

from clew.model.errors import NotFound
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
    return Download(f"{safe_name(session)}-{safe_name(form)}.zip", _archive(files))


def safe_name(name: str) -> str:
    """The last part of a name, in characters that mean nothing to any system."""
    last = _UNSAFE.sub("-", name.replace("\\", "/").rpartition("/")[2]).strip(".-")
    return last[-LONGEST_NAME:].lstrip(".-") or "session"


def _archive(files: list[File]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, file in enumerate(files, 1):
            archive.writestr(f"{number:02}-{safe_name(file.name)}", file.data)
    return made.getvalue()
