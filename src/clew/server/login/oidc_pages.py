"""Pages of the login with a provider. Text from a provider is hostile like any other."""

import shlex

from clew.server.web.markup import escaped, page

AGAIN = '<p><a href="/login">Back to the login</a></p>'


def login(provider: str) -> str:
    main = f"""<h1>Log in</h1><p><a href="/login/start">Log in with {escaped(provider)}</a></p>
<p id="told">Or open the link you were given, or paste it, or an API key, here.</p>
<form id="login"><input name="token" type="password" autocomplete="off" aria-label="Link or API key" required>
<button>Log in</button></form>"""
    return page("Log in", main, has_login=False, script="login.js")


def unknown_login(issuer: str, subject: str) -> str:
    command = f"clew principal add NAME --issuer {shlex.quote(issuer)} --subject {shlex.quote(subject)}"
    return _message(
        "You are not here yet",
        "Your provider knows you, but nobody has added you to this server. Give this to an owner of it, who runs it "
        f"with a name for you:</p><pre>{escaped(command)}</pre><p>Then log in again.",
    )


def disabled_login() -> str:
    return _message("You cannot come in", "An owner of this server has shut this account out. Ask one of them.")


def unknown_attempt() -> str:
    return _message(
        "This login cannot be finished",
        "It was not begun in this browser, or too long ago, or was finished already. Begin again.",
    )


def untrusted(request: str) -> str:
    return _message(
        "This login did not work",
        "What came back from the provider did not pass the checks, or it did not vouch for you. Begin again; if that "
        f"does not help, the log of this server says why, at the request <code>{escaped(request)}</code>.",
    )


def unreachable(provider: str) -> str:
    return _message(
        "The provider does not answer",
        f"{escaped(provider)} cannot be reached just now. Try again in a moment; links and API keys work meanwhile.",
    )


def _message(title: str, inside: str) -> str:
    return page(title, f"<h1>{title}</h1><p>{inside}</p>{AGAIN}", has_login=False)
