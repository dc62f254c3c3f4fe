"""What agent programs left on this machine and no session has yet: for the empty store of one person."""

from collections import Counter
from typing import Any, NamedTuple

from clew.server.web.page_request import Page, PageRequest


class Found(NamedTuple):
    """The files of a program that are new, and their size."""

    runtime: str
    files: int
    size: int


def found_here(request: PageRequest) -> list[Found]:
    """What was found, by program; nothing on a server for a team, whose machine has no sessions of people."""
    if not request.is_own:
        return []
    files, sizes = Counter[str](), Counter[str]()
    for file in request.call("capture_find").changed:
        files[file.runtime] += 1
        sizes[file.runtime] += file.size
    return [Found(runtime, count, sizes[runtime]) for runtime, count in files.most_common()]


def capturing(request: PageRequest) -> Page:
    """The page between two portions, for a browser without scripts."""
    return Page("capture/page.html", about(request))


def about(request: PageRequest) -> dict[str, Any]:
    found = found_here(request)
    return {
        "found": found, "files": sum(program.files for program in found), "after": request.query.get("after", "")
    }  # fmt: skip
