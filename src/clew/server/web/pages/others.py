"""Pages that call no operation: the login, the API, errors."""

from clew.server.web.page_request import Done, Page


def login(provider: str = "") -> Page:
    """The login; with a provider, people log in there."""
    return Page("login/page.html", {"provider": provider})


def docs() -> Page:
    return Page("docs/page.html")


def error(code: str, status: int) -> Page:
    """What an error's code means, for whoever follows the link in an answer."""
    return Page("problem/code.html", {"code": code, "status_of": status})


def problem(text: str, status: int, *, code: str = "") -> Page:
    return Page("problem/page.html", {"text": text, "code": code, "status": status}, status)


def done(made: Done, *, is_anew: bool) -> Page:
    """Where the browser goes after an action, for the script that asked; anew, if its page shows what is gone."""
    return Page("action/done.html", {"next": made.next, "words": made.words, "is_anew": is_anew})
