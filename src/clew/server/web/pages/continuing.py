"""Going on with a session in a program: first what becomes of it there, then the command."""

from clew.server.web.action import offers
from clew.server.web.actions.session import WRITE, rights_on
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.rendering import link
from clew.service.handover.continuation import Continuation


def continuing(request: PageRequest) -> Page:
    session = request.path["session"]
    wanted = request.query.get("in", "")
    at = request.query.get("at", "")
    from_event = {"at": int(at)} if at.isascii() and at.isdigit() and len(at) < 16 and int(at) else {}
    made: Continuation = request.call("continuation", session=session, runtime=wanted, **from_event)
    line = request.call("show", session=made.session).session
    path = f"/sessions/{made.session}/continue"
    write = offers((WRITE,), request, line, rights_on(request, made.session), session=made.session)
    return Page(
        "continuing/page.html",
        {
            "made": made, "line": line, "at": from_event.get("at", 0), "address": request.address,
            "is_own": request.is_own, "command": _command(made, from_event.get("at", 0), is_own=request.is_own),
            "programs": [
                (program.title, link(path, at=at if from_event else "", **{"in": program.runtime}),
                 program.runtime == made.runtime)
                for program in made.programs
            ],
            "write": link(write[0].address, runtime=made.runtime, **from_event) if write and made.runtime else "",
        },
    )  # fmt: skip


def _command(made: Continuation, at: int, *, is_own: bool) -> str:
    """What a person types on their own machine. A session of a server is pulled first, by its whole id."""
    id = made.session[:10] if is_own else made.session
    own = next((program.runtime for program in made.programs if program.is_own), "")
    words = ["clew", "resume", id]
    if made.runtime != own:
        words += ["--in", made.runtime]
    if at:
        words += ["--at", str(at)]
    return " ".join(words)
