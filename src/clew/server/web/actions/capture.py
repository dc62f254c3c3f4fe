"""Capturing what is on this machine, from the page of an empty store."""

from typing import Any

from clew.server.web.action import About, Action, Field, Servers
from clew.server.web.page_request import PageRequest
from clew.server.web.rendering import link


def _next(request: PageRequest, made: Any) -> str:
    return link("/capture", after=made.last, left=made.left) if made.left else "/"


CAPTURE = Action(
    "/capture", "capture_step", "Capture", "Takes in the sessions that agent programs left on this machine.",
    "Captured", lambda request: About("Home", "/"), (Field("after", "After"),), asks=False, next=_next,
    servers=Servers.OWN,
)  # fmt: skip
