"""Keys, links and logins: yours, or for an owner those of another; never their text."""

from clew.model.errors import Denied
from clew.server.web.actions.team import EACH_KEY, KEYS
from clew.server.web.offered import offered, rights_somewhere
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.permitted import permitted
from clew.server.web.rendering import link, person
from clew.service.access.credentials import KeyInfo

# A choice with one click for so many principals; the box takes any.
MOST_HOLDERS = 10


def keys(request: PageRequest) -> Page:
    who = request.query.get("who", "").strip() or request.principal
    principals = [principal.name for principal in permitted(request, "principal_list").value or ()]
    found: list[KeyInfo] = []
    refusal = ""
    try:
        # Whoever came with a link has no name that could be asked for.
        found = request.call("key_list", **({} if who == request.principal else {"principal": who}))
    except Denied as error:
        refusal = request.told(error)
    good = [key for key in found if not 0 < key.until <= request.now]
    rights = rights_somewhere(request)
    return Page(
        "keys/page.html",
        {
            "actions": offered(KEYS, request, rights, None, {"principal": "" if who == request.principal else who}),
            "key_actions": {key.id: offered(EACH_KEY, request, rights, key, key=key.id) for key in good},
            "keys": good, "ended": [key for key in found if key not in good], "who": who, "refusal": refusal,
            "principals": principals, "holders": _holders(request, principals, who), "is_own": request.is_own,
            "you": request.principal,
        },
    )  # fmt: skip


def _holders(request: PageRequest, principals: list[str], who: str) -> list[tuple[str, str, bool]]:
    """Whose keys can be looked at with one click: yours first."""
    names = [request.principal, *(name for name in principals if name != request.principal)]
    return [
        ("you" if name == request.principal else person(name), link("/keys", who=name), name == who)
        for name in names[:MOST_HOLDERS]
    ]
