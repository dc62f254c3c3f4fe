"""Pages for people: the sessions, one of them, the way in, the API. They only read.

All stored text is hostile and reaches a page through `_text` and `_short` alone, which escape it. A page is made from
what operations answer, after secrets were masked.
"""

import html
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from clew.model.plain import plain

LIST = 50
EVENTS = 300


class PageRequest(NamedTuple):
    """What a page is asked for, and the operations that answer it."""

    call: Callable[..., Any]
    path: dict[str, str]
    query: dict[str, str]
    has_login: bool


# Sessions -------------------------------------------------------------------------------------------------------------


def sessions(request: PageRequest) -> str:
    """The list, or what was found."""
    words = request.query.get("q", "").strip()
    box = (
        '<form class="search" action="/" role="search"><input name="q" type="search" aria-label="Search all sessions" '
        f'placeholder="Search all sessions" value="{_text(words)}"><button>Search</button></form>'
    )
    main = _found(request, words) if words else _listed(request)
    return _page("Sessions", f"{box}{main}", has_login=request.has_login)


def _listed(request: PageRequest) -> str:
    wanted = {name: request.query[name] for name in ("project", "before") if request.query.get(name)}
    lines = request.call("sessions", limit=LIST, **wanted)
    if not lines:
        return (
            '<p class="empty">No sessions yet. <code>clew capture</code> takes in what agent programs left on this '
            "machine, <code>clew open</code> begins one.</p>"
        )
    rows = "".join(_line(line) for line in lines)
    more = {**wanted, "before": lines[-1]["id"]}
    older = f'<p><a href="/?{_text(urlencode(more))}">Older sessions</a></p>' if len(lines) == LIST else ""
    return (
        "<table><thead><tr><th>Session<th>Project<th>Runtime<th>State<th class=n>Turns<th class=n>Calls<th>Last"
        f"</tr></thead><tbody>{rows}</tbody></table>{older}"
    )


def _line(line: dict[str, Any]) -> str:
    failed = f' <small class="bad">{line["errors"]} failed</small>' if line["errors"] else ""
    fork = f' <small title="forked from {_text(line["parent"])}">fork</small>' if line["parent"] else ""
    private = " <small>private</small>" if line["private"] else ""
    project = urlencode({"project": line["project"]})
    return (
        f'<tr><td><a href="/sessions/{_text(line["id"])}" dir="auto">{_short(line["title"]) or "Untitled"}</a>'
        f'<br><small class="id">{_text(line["id"])}</small>{fork}{private}'
        f'<td><a href="/?{_text(project)}">{_short(line["project"])}</a><td>{_short(line["runtime"] or line["agent"])}'
        f'<td><span class="state {_text(line["state"])}">{_text(line["state"])}</span>'
        f"<td class=n>{line['turns']:,}<td class=n>{line['calls']:,}{failed}<td>{_moment(line['last_at'])}</tr>"
    )


def _found(request: PageRequest, words: str) -> str:
    found = request.call("search", query=words, limit=20, after=request.query.get("after", ""))
    if not found["sessions"]:
        return f'<p class="empty">Nothing has “{_text(words)}”.</p>'
    groups = "".join(
        f'<section class="hit"><h2><a href="/sessions/{_text(one["session"])}" dir="auto">'
        f"{_short(one['title']) or 'Untitled'}</a> <small>{_short(one['project'])} · {_moment(one['last_at'])}</small>"
        "</h2>" + "".join(_hit(hit) for hit in one["hits"]) + "</section>"
        for one in found["sessions"]
    )
    more = urlencode({"q": words, "after": found["next"]})
    return groups + (f'<p><a href="/?{_text(more)}">More</a></p>' if found["next"] else "")


def _hit(hit: dict[str, Any]) -> str:
    place = f"/sessions/{hit['session']}?after={max(0, hit['seq'] - 1)}#e{hit['seq']}"
    said = _short(hit["snippet"]["text"], 300)
    return f'<p><a class="seq" href="{_text(place)}">{hit["seq"]}</a> {_text(hit["role"])}: {said}</p>'


# One session ----------------------------------------------------------------------------------------------------------


def transcript(request: PageRequest) -> str:
    """A session, a page of events at a time."""
    id = request.path["session"]
    about = request.call("show", session=id)
    session = about["session"]
    after = request.query.get("after", "0")
    start = int(after) if after.isascii() and after.isdigit() and len(after) < 19 else 0
    events = request.call("events", session=session["id"], after=start, limit=EVENTS)
    returned = {one["call"]: one for one in events if one["kind"] == "call_returned" and "call" in one}
    made = {one["call"] for one in events if one["kind"] == "call_made" and "call" in one}
    body = "".join(
        _event(one, returned) for one in events if one["kind"] != "call_returned" or one.get("call") not in made
    )
    facts = [
        ("Id", _text(session["id"])), ("Project", _text(session["project"])), ("Agent", _text(session["agent"])),
        ("State", _text(session["state"])), ("Events", f"{session['head']:,}"),
        ("Opened", _moment(session["opened_at"])), ("Last", _moment(session["last_at"])),
        ("Owner", _text(session["owner"])),
        ("Forked from", _linked(session["parent"]) if session["parent"] else ""),
        ("Forks", ", ".join(f"{_linked(fork[0])} at {fork[1]}" for fork in about["forks"])),
        ("Progress", _progress(about["progress"])),
    ]  # fmt: skip
    told = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts if value)
    knows = _list(
        "Decisions", [f"{_text(one['choice'])} <small>{_text(one['why'])}</small>" for one in about["decisions"]]
    )
    knows += _list("Facts", [_text(one["text"]) for one in about["facts"]])
    last = events[-1]["seq"] if events else start
    earlier = f'<a href="?after={max(0, start - EVENTS)}">Earlier</a>' if start else ""
    later = f'<a href="?after={last}">Later</a>' if last < session["head"] else ""
    live = f'<p id="live" data-session="{_text(session["id"])}" data-after="{session["head"]}" hidden></p>'
    title = _short(session["title"]) or "Untitled"
    steps = f"<nav>{earlier} {later}</nav>"
    main = f'<h1 dir="auto">{title}</h1><dl>{told}</dl>{knows}{steps}{body}{steps}{live}'
    return _page(session["title"] or "Untitled", main, has_login=request.has_login, script="clew.js")


def _event(event: dict[str, Any], returned: dict[str, Any]) -> str:
    kind = event["kind"]
    if "removed" in event:
        return _note(event, f"{kind}: its content was removed ({_text(event['removed'])})")
    if kind == "message_added":
        role = event["role"] if event["role"] in ("user", "assistant", "system") else "other"
        parts = ([{"type": "text", "text": event["text"]}] if event.get("text") else []) + event.get("parts", [])
        said = "".join(_part(part) for part in parts)
        who = f"{_text(event['role'])} <small>{_text(event.get('model', ''))}</small>"
        return f'<article class="{role}" id="e{event["seq"]}"><h2>{who}{_place(event)}</h2>{said}</article>'
    if kind == "call_made":
        back = returned.get(event["call"])
        failed = back is not None and back.get("failed", False)
        outcome = "failed" if failed else "" if back else "no result here"
        given = _json(event.get("input"))
        summary = f"<code>{_short(event['tool'])}</code> <small>{_short(given, 100)}</small> <b>{outcome}</b>"
        inside = f"<pre>{_text(given)}</pre>" + (f"<pre>{_text(_json(back.get('output')))}</pre>" if back else "")
        inside += "".join(_part(part) for part in back.get("parts", [])) if back else ""
        head = f"<summary>{summary}{_place(event)}</summary>"
        return f'<details class="call{" failed" * failed}" id="e{event["seq"]}">{head}{inside}</details>'
    known = {"session", "seq", "kind", "at", "actor", "source", "said_at", "position"}
    rest = {name: value for name, value in event.items() if name not in known}
    return _note(event, f"{_text(kind.replace('_', ' '))} <small>{_short(_json(rest), 300) if rest else ''}</small>")


def _part(part: dict[str, Any]) -> str:
    match part.get("type"):
        case "text":
            return f'<div class="said" dir="auto">{_text(part["text"])}</div>'
        case "thinking":
            said = f'<div class="said" dir="auto">{_text(part["text"])}</div>'
            return f"<details><summary>Thinking</summary>{said}</details>"
        case _:
            name = part.get("name") or part.get("media_type") or "file"
            return f'<p class="note">{_text(str(part.get("type")))}: {_short(name)}</p>'


def _note(event: dict[str, Any], inside: str) -> str:
    return f'<p class="note" id="e{event["seq"]}">{inside}{_place(event)}</p>'


def _place(event: dict[str, Any]) -> str:
    said = event.get("said_at") or event["at"]
    return f' <a class="seq" href="#e{event["seq"]}">{event["seq"]}</a> <small>{_moment(said)}</small>'


def _progress(progress: dict[str, Any] | None) -> str:
    if not progress:
        return ""
    told = [
        f"{word}: {_text(progress[name])}" for name, word in (("done", "done"), ("next", "next")) if progress.get(name)
    ]
    return "; ".join(told)


def _list(title: str, items: list[str]) -> str:
    if not items:
        return ""
    inside = "".join(f"<li>{one}</li>" for one in items)
    return f"<details><summary>{title} ({len(items)})</summary><ul>{inside}</ul></details>"


def _linked(id: str) -> str:
    return f'<a href="/sessions/{_text(id)}">{_text(id)}</a>'


# Others ---------------------------------------------------------------------------------------------------------------


def login() -> str:
    main = """<h1>Log in</h1><p id="told">Open the link you were given, or paste it, or an API key, here.</p>
<form id="login"><input name="token" type="password" autocomplete="off" aria-label="Link or API key" required>
<button>Log in</button></form>"""
    return _page("Log in", main, has_login=False, script="login.js")


def docs() -> str:
    main = """<h1>API</h1><p>Made from the operations that the command line and Python have, too.
<a href="/openapi.json">openapi.json</a> is the same for programs.</p><div id="api">Loading …</div>"""
    return _page("API", main, has_login=False, script="docs.js")


def error(code: str, status: int) -> str:
    return _page(
        code,
        f"<h1>{_text(code)}</h1><p>Answered with the status {status}. <a href='/docs'>API</a></p>",
        has_login=False,
    )


def refusal(text: str, *, has_login: bool) -> str:
    return _page("Not possible", f'<h1>Not possible</h1><p dir="auto">{_text(text)}</p>', has_login=has_login)


def _page(title: str, main: str, *, has_login: bool, script: str = "") -> str:
    code = f'<script src="/assets/{script}" defer></script>' if script else ""
    out = '<form action="/logout" method="post"><button class="plain">Log out</button></form>' if has_login else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{_short(title)} · clew</title>
<link rel="stylesheet" href="/assets/clew.css">
<link rel="icon" href="data:,">
{code}
</head>
<body>
<header><a class="name" href="/">clew</a><nav><a href="/">Sessions</a> <a href="/docs">API</a></nav>{out}</header>
<main>{main}</main>
</body>
</html>
"""


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=1 if len(str(value)) > 80 else None)


def _moment(at: int) -> str:
    """A time of the store, in UTC; a runtime may have said any number."""
    try:
        told = time.gmtime(at // 1_000_000)
    except (OverflowError, ValueError, OSError):
        return str(at)
    return (
        f'<time datetime="{time.strftime("%Y-%m-%dT%H:%M:%SZ", told)}">{time.strftime("%Y-%m-%d %H:%M", told)}</time>'
    )


def _short(text: str, longest: int = 120) -> str:
    """The beginning of a text, in one line, as HTML."""
    line = " ".join(plain(text[: longest * 4]).split())
    return html.escape(line if len(line) <= longest else line[: longest - 1] + "…", quote=True)


def _text(text: str) -> str:
    """Stored text as HTML: nothing in it is markup, in an attribute neither."""
    return html.escape(plain(text), quote=True)
