"""HTML that every page is made of. Stored text is hostile: `escaped` and `one_line` are the only ways into a page."""

import html
import time

from clew.model.plain import plain


def page(title: str, main: str, *, has_login: bool, script: str = "") -> str:
    """A whole page around its main part."""
    code = f'<script src="/assets/{script}" defer></script>' if script else ""
    logout = '<form action="/logout" method="post"><button class="plain">Log out</button></form>' if has_login else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{one_line(title)} · clew</title>
<link rel="stylesheet" href="/assets/clew.css">
<link rel="icon" href="data:,">
{code}
</head>
<body>
<header><a class="name" href="/">clew</a><nav><a href="/">Sessions</a> <a href="/docs">API</a></nav>{logout}</header>
<main>{main}</main>
</body>
</html>
"""


def escaped(text: str) -> str:
    """Stored text as HTML, good in an attribute too: nothing in it is markup."""
    return html.escape(plain(text), quote=True)


def one_line(text: str, longest: int = 120) -> str:
    """The beginning of a text, in one line, as HTML."""
    line = " ".join(plain(text[: longest * 4]).split())
    return html.escape(line if len(line) <= longest else line[: longest - 1] + "…", quote=True)


def moment(at: int) -> str:
    """A time of the store, in UTC; a runtime may have stored any number."""
    try:
        utc = time.gmtime(at // 1_000_000)
    except (OverflowError, ValueError, OSError):
        return str(at)
    return f'<time datetime="{time.strftime("%Y-%m-%dT%H:%M:%SZ", utc)}">{time.strftime("%Y-%m-%d %H:%M", utc)}</time>'
