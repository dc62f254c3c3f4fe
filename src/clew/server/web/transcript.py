"""The page of one session: what is known about it, and its events, a page at a time."""

import json
from typing import Any

from clew.server.web.markup import escaped, moment, one_line, page
from clew.server.web.page_request import PageRequest

EVENTS = 300
# The fields that every event has, or that only machines read.
COMMON_FIELDS = frozenset({"session", "seq", "kind", "at", "actor", "source", "said_at", "position"})


def transcript(request: PageRequest) -> str:
    """A session, a page of events at a time."""
    shown = request.call("show", session=request.path["session"])
    session = shown["session"]
    after = _after(request.query.get("after", "0"))
    events = request.call("events", session=session["id"], after=after, limit=EVENTS)
    title = one_line(session["title"]) or "Untitled"
    steps = _steps(after, events[-1]["seq"] if events else after, session["head"])
    live = f'<p id="live" data-session="{escaped(session["id"])}" data-after="{session["head"]}" hidden></p>'
    main = (
        f'<h1 dir="auto">{title}</h1><dl>{_about(shown)}</dl>{_knowledge(shown)}{steps}{_events(events)}{steps}{live}'
    )
    return page(session["title"] or "Untitled", main, has_login=request.has_login, script="clew.js")


def _after(text: str) -> int:
    """The seq that the page begins after; 0 for what is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _steps(after: int, last: int, head: int) -> str:
    earlier = f'<a href="?after={max(0, after - EVENTS)}">Earlier</a>' if after else ""
    later = f'<a href="?after={last}">Later</a>' if last < head else ""
    return f"<nav>{earlier} {later}</nav>"


# About the session ----------------------------------------------------------------------------------------------------


def _about(shown: dict[str, Any]) -> str:
    session = shown["session"]
    fields = [
        ("Id", escaped(session["id"])), ("Project", escaped(session["project"])), ("Agent", escaped(session["agent"])),
        ("State", escaped(session["state"])), ("Events", f"{session['head']:,}"),
        ("Opened", moment(session["opened_at"])), ("Last", moment(session["last_at"])),
        ("Owner", escaped(session["owner"])),
        ("Forked from", _link(session["parent"]) if session["parent"] else ""),
        ("Forks", ", ".join(f"{_link(fork[0])} at {fork[1]}" for fork in shown["forks"])),
        ("Progress", _progress(shown["progress"])),
    ]  # fmt: skip
    return "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in fields if value)


def _link(id: str) -> str:
    return f'<a href="/sessions/{escaped(id)}">{escaped(id)}</a>'


def _progress(progress: dict[str, Any] | None) -> str:
    return "; ".join(
        f"{name}: {escaped(progress[name])}" for name in ("done", "next") if progress and progress.get(name)
    )


def _knowledge(shown: dict[str, Any]) -> str:
    decisions = [
        f"{escaped(decision['choice'])} <small>{escaped(decision['why'])}</small>" for decision in shown["decisions"]
    ]
    return _list("Decisions", decisions) + _list("Facts", [escaped(fact["text"]) for fact in shown["facts"]])


def _list(title: str, items: list[str]) -> str:
    if not items:
        return ""
    inside = "".join(f"<li>{item}</li>" for item in items)
    return f"<details><summary>{title} ({len(items)})</summary><ul>{inside}</ul></details>"


# Events ---------------------------------------------------------------------------------------------------------------


def _events(events: list[dict[str, Any]]) -> str:
    """The events; the result of a call stands with the call, if both are on this page."""
    results = {event["call"]: event for event in events if event["kind"] == "call_returned" and "call" in event}
    calls = {event["call"] for event in events if event["kind"] == "call_made" and "call" in event}
    return "".join(
        _event(event, results) for event in events if event["kind"] != "call_returned" or event.get("call") not in calls
    )


def _event(event: dict[str, Any], results: dict[str, Any]) -> str:
    kind = event["kind"]
    if "removed" in event:
        return _note(event, f"{kind}: its content was removed ({escaped(event['removed'])})")
    if kind == "message_added":
        return _message(event)
    if kind == "call_made":
        return _call(event, results.get(event["call"]))
    rest = {name: value for name, value in event.items() if name not in COMMON_FIELDS}
    inside = one_line(_json(rest), 300) if rest else ""
    return _note(event, f"{escaped(kind.replace('_', ' '))} <small>{inside}</small>")


def _message(event: dict[str, Any]) -> str:
    role = event["role"] if event["role"] in ("user", "assistant", "system") else "other"
    parts = ([{"type": "text", "text": event["text"]}] if event.get("text") else []) + event.get("parts", [])
    author = f"{escaped(event['role'])} <small>{escaped(event.get('model', ''))}</small>"
    inside = "".join(_part(part) for part in parts)
    return f'<article class="{role}" id="e{event["seq"]}"><h2>{author}{_seq_and_time(event)}</h2>{inside}</article>'


def _call(event: dict[str, Any], result: dict[str, Any] | None) -> str:
    failed = result is not None and result.get("failed", False)
    outcome = "failed" if failed else "" if result else "no result here"
    input = _json(event.get("input"))
    summary = f"<code>{one_line(event['tool'])}</code> <small>{one_line(input, 100)}</small> <b>{outcome}</b>"
    inside = f"<pre>{escaped(input)}</pre>"
    if result:
        inside += f"<pre>{escaped(_json(result.get('output')))}</pre>"
        inside += "".join(_part(part) for part in result.get("parts", []))
    head = f"<summary>{summary}{_seq_and_time(event)}</summary>"
    return f'<details class="call{" failed" * failed}" id="e{event["seq"]}">{head}{inside}</details>'


def _part(part: dict[str, Any]) -> str:
    match part.get("type"):
        case "text":
            return _text_block(part["text"])
        case "thinking":
            return f"<details><summary>Thinking</summary>{_text_block(part['text'])}</details>"
        case _:
            name = part.get("name") or part.get("media_type") or "file"
            return f'<p class="note">{escaped(str(part.get("type")))}: {one_line(name)}</p>'


def _text_block(text: str) -> str:
    return f'<div class="said" dir="auto">{escaped(text)}</div>'


def _note(event: dict[str, Any], inside: str) -> str:
    return f'<p class="note" id="e{event["seq"]}">{inside}{_seq_and_time(event)}</p>'


def _seq_and_time(event: dict[str, Any]) -> str:
    """The seq of an event as a link to it, and its time."""
    at = event.get("said_at") or event["at"]
    return f' <a class="seq" href="#e{event["seq"]}">{event["seq"]}</a> <small>{moment(at)}</small>'


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=1 if len(str(value)) > 80 else None)
