"""Pages for people, which only read: the list of sessions, the login, the API. `transcript.py` shows one session."""

from typing import Any
from urllib.parse import urlencode

from clew.server.web.markup import escaped, moment, one_line, page
from clew.server.web.page_request import PageRequest

LIST = 50
HITS = 20


# Sessions -------------------------------------------------------------------------------------------------------------


def sessions(request: PageRequest) -> str:
    """The list of sessions, or the hits of a search."""
    words = request.query.get("q", "").strip()
    box = (
        '<form class="search" action="/" role="search"><input name="q" type="search" aria-label="Search all sessions" '
        f'placeholder="Search all sessions" value="{escaped(words)}"><button>Search</button></form>'
    )
    main = _search(request, words) if words else _list(request)
    return page("Sessions", f"{box}{main}", has_login=request.has_login)


def _list(request: PageRequest) -> str:
    filters = {name: request.query[name] for name in ("project", "tag", "before") if request.query.get(name)}
    lines = request.call("sessions", limit=LIST, **filters)
    if not lines:
        return (
            '<p class="empty">No sessions yet. <code>clew capture</code> takes in what agent programs left on this '
            "machine, <code>clew open</code> begins one.</p>"
        )
    rows = "".join(_row(line) for line in lines)
    query = urlencode({**filters, "before": lines[-1]["id"]})
    older = f'<p><a href="/?{escaped(query)}">Older sessions</a></p>' if len(lines) == LIST else ""
    return (
        "<table><thead><tr><th>Session<th>Project<th>Runtime<th>State<th class=n>Turns<th class=n>Calls<th>Last"
        f"</tr></thead><tbody>{rows}</tbody></table>{older}"
    )


def _row(line: dict[str, Any]) -> str:
    failed = f' <small class="bad">{line["errors"]} failed</small>' if line["errors"] else ""
    fork = f' <small title="forked from {escaped(line["parent"])}">fork</small>' if line["parent"] else ""
    private = " <small>private</small>" if line["private"] else ""
    star = "★ " if line["starred"] else ""
    tags = "".join(
        f' <small><a href="/?{escaped(urlencode({"tag": tag}))}">#{escaped(tag)}</a></small>' for tag in line["tags"]
    )
    project = urlencode({"project": line["project"]})
    return (
        f'<tr><td>{star}<a href="/sessions/{escaped(line["id"])}" dir="auto">'
        f"{one_line(line['title']) or 'Untitled'}</a>"
        f'<br><small class="id">{escaped(line["id"])}</small>{fork}{private}{tags}'
        f'<td><a href="/?{escaped(project)}">{one_line(line["project"])}</a>'
        f"<td>{one_line(line['runtime'] or line['agent'])}"
        f'<td><span class="state {escaped(line["status"])}">{escaped(line["status"])}</span>'
        f"<td class=n>{line['turns']:,}<td class=n>{line['calls']:,}{failed}<td>{moment(line['last_at'])}</tr>"
    )


def _search(request: PageRequest, words: str) -> str:
    answer = request.call("search", query=words, limit=HITS, after=request.query.get("after", ""))
    if not answer["sessions"]:
        return f'<p class="empty">Nothing has “{escaped(words)}”.</p>'
    groups = "".join(
        f'<section class="hit"><h2><a href="/sessions/{escaped(session["session"])}" dir="auto">'
        f"{one_line(session['title']) or 'Untitled'}</a> "
        f"<small>{one_line(session['project'])} · {moment(session['last_at'])}</small>"
        "</h2>" + "".join(_hit(hit) for hit in session["hits"]) + "</section>"
        for session in answer["sessions"]
    )
    query = urlencode({"q": words, "after": answer["next"]})
    if answer["partial"]:
        groups = f'<p class="empty">Nothing has all of “{escaped(words)}”. These have the most of it.</p>{groups}'
    return groups + (f'<p><a href="/?{escaped(query)}">More</a></p>' if answer["next"] else "")


def _hit(hit: dict[str, Any]) -> str:
    link = f"/sessions/{hit['session']}?at={hit['seq']}#e{hit['seq']}"
    snippet = one_line(hit["snippet"]["text"], 300)
    return f'<p><a class="seq" href="{escaped(link)}">{hit["seq"]}</a> {escaped(hit["role"])}: {snippet}</p>'


# Others ---------------------------------------------------------------------------------------------------------------


def login() -> str:
    main = """<h1>Log in</h1><p id="told">Open the link you were given, or paste it, or an API key, here.</p>
<form id="login"><input name="token" type="password" autocomplete="off" aria-label="Link or API key" required>
<button>Log in</button></form>"""
    return page("Log in", main, has_login=False, script="login.js")


def docs() -> str:
    main = """<h1>API</h1><p>Made from the operations that the command line and Python have, too.
<a href="/openapi.json">openapi.json</a> is the same for programs.</p><div id="api">Loading …</div>"""
    return page("API", main, has_login=False, script="docs.js")


def error(code: str, status: int) -> str:
    return page(
        code,
        f"<h1>{escaped(code)}</h1><p>Answered with the status {status}. <a href='/docs'>API</a></p>",
        has_login=False,
    )


def refusal(text: str, *, has_login: bool) -> str:
    return page("Not possible", f'<h1>Not possible</h1><p dir="auto">{escaped(text)}</p>', has_login=has_login)
