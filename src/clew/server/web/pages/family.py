"""The family of a session, as a picture and as a list."""

from clew.server.web.family_picture import picture
from clew.server.web.page_request import Page, PageRequest
from clew.service.sessions.family import ELSEWHERE, FIRST, FORK, SUBAGENT, Family

HOW = {FIRST: "", FORK: "forked", ELSEWHERE: "went on elsewhere", SUBAGENT: "subagent"}


def family(request: PageRequest) -> Page:
    found: Family = request.call("family", session=request.path["session"])
    here = next(member.session for member in found.members if member.session.id == found.session)
    drawn = picture(found.members, found.session)
    return Page("family/page.html", {"here": here, "picture": drawn, "how": HOW, "is_whole": found.is_whole})
