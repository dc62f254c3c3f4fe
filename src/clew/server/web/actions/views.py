"""What can be done with the views that somebody saved of the list of sessions; each is its reader's own."""

from typing import Any

from clew.server.web.action import About, Action, Field
from clew.server.web.page_request import PageRequest
from clew.server.web.rendering import link
from clew.service.find.saved_views import LONGEST_FILTERS, LONGEST_NAME

_NAME = Field("name", "Name", needed=True, longest=LONGEST_NAME)


def _about(request: PageRequest) -> About:
    return About("Saved views", "/sessions")


def _list_of(request: PageRequest, made: Any) -> str:
    return link("/sessions", view=made.name)


VIEW_SAVE = Action(
    "/views/save", "view_save", "Save view",
    "Keeps filters and an order of the list of sessions under a name. Nobody else sees your views. A name that you "
    "have already then stands for the new filters.",
    "The view is saved", _about,
    (
        _NAME,
        Field("filters", "Filters", hint="Such as runtime:codex error:yes since:monday sort:cost.", needed=True,
              longest=LONGEST_FILTERS),
    ),
    next=_list_of,
)  # fmt: skip
VIEW_REMOVE = Action(
    "/views/remove", "view_remove", "Remove the view", "Removes the name and its filters; the sessions stay.",
    "The view is removed", _about, (_NAME,),
)  # fmt: skip

VIEWS = (VIEW_SAVE, VIEW_REMOVE)
