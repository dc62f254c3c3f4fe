"""Pages of the login with a provider. Text from a provider is hostile like any other: the templates escape it."""

import shlex

from clew.server.web.page_request import Page
from clew.server.web.pages.others import login as login_page


def login(provider: str) -> Page:
    return login_page(provider)


def unknown_login(issuer: str, subject: str) -> Page:
    command = f"clew principal add NAME --issuer {shlex.quote(issuer)} --subject {shlex.quote(subject)}"
    return _message(
        "You are not here yet",
        "Your provider knows you, but nobody has added you to this server. Give this to an owner of it, who runs it "
        "with a name for you:",
        403,
        command=command,
    )


def disabled_login() -> Page:
    return _message("You cannot come in", "An owner of this server has shut this account out. Ask one of them.", 403)


def unknown_attempt() -> Page:
    return _message(
        "This login cannot be finished",
        "It was not begun in this browser, or too long ago, or was finished already. Begin again.",
        400,
    )


def untrusted(request: str) -> Page:
    return _message(
        "This login did not work",
        "What came back from the provider did not pass the checks, or it did not vouch for you. Begin again.",
        401,
        request=request,
    )


def unreachable(provider: str) -> Page:
    return _message(
        "The provider does not answer",
        f"{provider} cannot be reached just now. Try again in a moment; links and API keys work meanwhile.",
        503,
    )


def _message(heading: str, text: str, status: int, *, command: str = "", request: str = "") -> Page:
    values = {"heading": heading, "text": text, "command": command, "request": request}
    return Page("login/message.html", values, status)
