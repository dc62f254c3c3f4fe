"""The page of one session: what is known about it, and its transcript, a page at a time."""

import json
from typing import Any

from clew.server.web.markup import escaped, moment, one_line, page
from clew.server.web.page_request import PageRequest

EVENTS = 300
# The fields that every event has, or that only machines read.
COMMON_FIELDS = frozenset({"session", "seq", "kind", "at", "actor", "source", "said_at", "position"})


def transcript(request: PageRequest) -> str:
    """A session, a page of its transcript at a time."""
    shown = request.call("show", session=request.path["session"])
    session = shown["session"]
    page_of = _page_of(request.query, session["head"])
    transcript = request.call("transcript", session=session["id"], limit=EVENTS, **page_of)
    title = one_line(session["title"]) or "Untitled"
    steps = _steps(transcript["previous"], transcript["next"])
    live = f'<p id="live" data-session="{escaped(session["id"])}" data-after="{session["head"]}" hidden></p>'
    main = (
        f'<h1 dir="auto">{title}</h1><dl>{_about(shown)}</dl>{_knowledge(shown)}{steps}'
        f"{_turns(transcript['turns'])}{steps}{live}"
    )
    return page(session["title"] or "Untitled", main, has_login=request.has_login, script="clew.js")


def _page_of(query: dict[str, str], head: int) -> dict[str, int]:
    """Which page is asked for: the one after a seq, before one, or around one; else the first."""
    for name in ("after", "backward", "at"):
        text = query.get(name, "")
        if text.isascii() and text.isdigit() and len(text) < 19 and (name == "after" or 1 <= int(text) <= head + 1):
            return {name: min(int(text), head) if name == "at" else int(text)}
    return {}


def _steps(previous: int, following: int) -> str:
    earlier = f'<a href="?backward={previous}">Earlier</a>' if previous else ""
    later = f'<a href="?after={following}">Later</a>' if following else ""
    return f"<nav>{earlier} {later}</nav>"


# About the session ----------------------------------------------------------------------------------------------------


def _about(shown: dict[str, Any]) -> str:
    session = shown["session"]
    fields = [
        ("Id", escaped(session["id"])), ("Project", escaped(session["project"])), ("Agent", escaped(session["agent"])),
        ("State", escaped(session["status"])), ("Events", f"{session['head']:,}"),
        ("Began", moment(session["began_at"])), ("Last", moment(session["last_at"])),
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


# Turns and items ------------------------------------------------------------------------------------------------------


def _turns(turns: list[dict[str, Any]]) -> str:
    return "".join(
        "".join(map(_item, turn["items"])) + "".join(map(_subagent, turn["subagents"])) for turn in turns
    )  # fmt: skip


def _subagent(subagent: dict[str, Any]) -> str:
    about = f"<small>{subagent['events']:,} events, {escaped(subagent['state'])}</small>"
    return f'<p class="note">subagent {_link(subagent["session"])} {one_line(subagent["title"])} {about}</p>'


def _item(item: dict[str, Any]) -> str:
    event = item["event"]
    match item["type"]:
        case "withdrawn":
            count = item["withdrawn"]
            return _note(item, f"{count:,} event{'s were' if count != 1 else ' was'} taken back by a rewind")
        case "removed":
            verb = "is" if event["removed"] == "damaged" else "was"
            removed = f"{escaped(event['kind'])}: its content {verb} {escaped(event['removed'])}"
            return _note(item, removed) + (_result(item["returned"]) if item["returned"] else "")
        case "message":
            return _message(item, event)
        case "call":
            return _call(item, event, item["returned"])
        case "return":
            note = (
                f"<small>the return of a call that is not here</small> {'<b>failed</b>' * event.get('failed', False)}"
            )
            return _note(item, note) + _result(event)
        case "compaction":
            return _note(item, "earlier conversation summarised") + _text_block(event["summary"])
        case _:
            rest = {name: value for name, value in event.items() if name not in COMMON_FIELDS}
            inside = one_line(_json(rest), 300) if rest else ""
            return _note(item, f"{escaped(event['kind'].replace('_', ' '))} <small>{inside}</small>")


def _message(item: dict[str, Any], event: dict[str, Any]) -> str:
    role = event["role"] if event["role"] in ("user", "assistant", "system") else "other"
    parts = ([{"type": "text", "text": event["text"]}] if event.get("text") else []) + event.get("parts", [])
    side = f"{escaped(event['side'])} " if event.get("side") else ""
    author = f"{side}{escaped(event['role'])} <small>{escaped(event.get('model', ''))}</small>"
    inside = "".join(_part(part) for part in parts)
    return f'<article class="{role}" id="e{item["seq"]}"><h2>{author}{_seq_and_time(item)}</h2>{inside}</article>'


def _call(item: dict[str, Any], event: dict[str, Any], result: dict[str, Any] | None) -> str:
    failed = result is not None and result.get("failed", False)
    outcome = "failed" if failed else "" if result else "no result here"
    took = f"{item['duration_us'] / 1e6:.1f} s" if item["duration_us"] else ""
    input = _json(event.get("input"))
    summary = f"<code>{one_line(event['tool'])}</code> <small>{one_line(input, 100)}</small> <b>{outcome}</b>"
    inside = f"<pre>{escaped(input)}</pre>{_result(result) if result else ''}"
    head = f"<summary>{summary} <small>{took}</small>{_seq_and_time(item)}</summary>"
    return f'<details class="call{" failed" * failed}" id="e{item["seq"]}">{head}{inside}</details>'


def _result(result: dict[str, Any]) -> str:
    if "removed" in result:
        return f'<p class="note" id="e{result["seq"]}">its result: {escaped(result["removed"])}</p>'
    output = f'<pre id="e{result["seq"]}">{escaped(_json(result.get("output")))}</pre>'
    return output + "".join(_part(part) for part in result.get("parts", []))


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


def _note(item: dict[str, Any], inside: str) -> str:
    return f'<p class="note" id="e{item["seq"]}">{inside}{_seq_and_time(item)}</p>'


def _seq_and_time(item: dict[str, Any]) -> str:
    """The seq of an item as a link to it, and its time."""
    return f' <a class="seq" href="#e{item["seq"]}">{item["seq"]}</a> <small>{moment(item["at"])}</small>'


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=1 if len(str(value)) > 80 else None)
