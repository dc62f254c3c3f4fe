"""Attacks that name what is another's: ids in every parameter of every operation, tool, stream and page."""

import re
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from attack.attack import Attack
from attack.wire import Headers, json_body, query, request
from attack.world import VAULT, Way, World
from clew.mcp import prompts
from clew.mcp.tools import tools
from clew.server.web.action import Field, Kind
from clew.server.web.navigation import ACTIONS
from clew.service.kernel.registry import load
from isolation.tenants import NAMES, PLAIN, Question, questions
from isolation.test_operations import WRITES_OWN
from isolation.test_surfaces import arguments_of
from service.test_credentials import MAKING

# What only its owner may ask for without harm: it would take the attackers' own means away.
SPOILING = WRITES_OWN | {"access_end", "archive", "principal_disable", "retention_apply", "views_rebuild"}
NOWHERE: dict[str, Any] = {
    "session": "zzzz9zzzz9zzzz9zzzz9", "private": "yyyy9yyyy9yyyy9yyyy9", "project": "nowhere", "agent": "nobody",
    "person": "person:nobody", "key": "NoSuchKey000", "grant": 987_654_321, "file": "none.py", "word": "nosuchword",
    "fact": "nofact", "decision": "nodecision", "job": "nosuchjob", "machine": "nobox", "model": "nomodel",
}  # fmt: skip


def as_request(question: Question, way: Way, *, quoted: bool = True, more: tuple[tuple[str, str], ...] = ()) -> bytes:
    """The question over the route of its operation."""
    method, _, path = load()[question.operation].route.partition(" ")
    rest = dict(question.arguments)
    for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
        value = str(rest.pop(name))
        path = path.replace(f"{{{name}}}", quote(value, safe="", errors="surrogatepass") if quoted else value)
    headers = (*way.headers, *more)
    if method in ("GET", "DELETE"):
        return request(method, query(f"/v1{path}", rest.items()), headers)
    return request(method, f"/v1{path}", headers, json_body(rest))


def is_denied(question: Question, way: Way) -> bool:
    """Whether the credential rules the operation out, whatever it is about."""
    if way.rights is not None and load()[question.operation].right not in way.rights:
        return True
    return question.operation in MAKING and not way.makes and question.operation != "access_held"


def others(world: World) -> list[Question]:
    """Every operation with everything of the other tenant's, and of the vault."""
    ours, theirs = world.ours, world.theirs
    vault = theirs._replace(session=world.vault.session, private=world.vault.session, project=VAULT, child="")
    asked = [*questions(ours, theirs), *questions(ours, vault)]
    own = {name: question for question in questions(ours, ours) for name in [question.operation]}
    return [
        question for question in asked
        if question.operation not in SPOILING
        or (question != own[question.operation] and not _is_only_ours(question, world))
    ]  # fmt: skip


def _is_only_ours(question: Question, world: World) -> bool:
    text = repr(question.arguments)
    return world.theirs.canary not in text and not any(
        name in text for name in (world.theirs.session[:9], world.theirs.private[:9], world.vault.session[:9], VAULT)
    )


def swaps(world: World, chance: Random) -> Iterator[Attack]:
    asked = others(world)
    while True:
        question, way = chance.choice(asked), chance.choice(list(world.ways.values()))
        if way.name in ("mole", "colleague") and question.operation in SPOILING:
            continue  # They may write to the vault; what they may not is asked for in ruling.py.
        changed, is_plain = _mutated(question, chance)
        yield Attack(
            "id swaps", f"{way.name}: {changed}", as_request(changed, way, quoted=is_plain), is_denied(question, way),
            said=(*_said(changed), *_spelt(question, changed)),
        )  # fmt: skip


def _spelt(question: Question, changed: Question) -> Iterator[str]:
    """The whole ids that were asked with in another spelling; whoever has a part of one must not learn the rest."""
    for name, value in question.arguments.items():
        if isinstance(value, str) and len(str(changed.arguments[name])) >= len(value):
            yield value


def _said(question: Question) -> tuple[str, ...]:
    texts: list[str] = []
    for value in question.arguments.values():
        texts += [value] if isinstance(value, str) else map(str, value) if isinstance(value, list) else []
    return tuple(texts)


def _mutated(question: Question, chance: Random) -> tuple[Question, bool]:
    """The question with an id in it written in another way; and whether its path is quoted as it should be."""
    ids = [name for name, value in question.arguments.items() if isinstance(value, str) and len(value) == 20]
    if not ids or chance.random() < 0.6:
        return question, True
    name = chance.choice(ids)
    id = question.arguments[name]
    value, is_plain = chance.choice([
        (id[: chance.randrange(4, 20)], True), (id.upper(), True), (f"{id}\0", True), (f" {id} ", True),
        (f"{id}/", True), (f"../sessions/{id}", True), (f"{id};x=1", False), (quote(quote(f"{id}/"), safe=""), False),
        ("".join(f"%{ord(letter):02x}" for letter in id), False), (f"{id}%00", False), (f"{id}%23", False),
        ("".join(chr(ord(letter) + 0xFEE0) for letter in id), True), (f"{id}\n", True), (f"{id[:9]}%", True),
        (f"{id[:9]}*", True), (f"{id[:9]}_", True),
    ])  # fmt: skip
    return Question(question.operation, {**question.arguments, name: value}), is_plain


def tells(world: World, chance: Random) -> Iterator[Attack]:
    """What is another's and what is not there are answered alike."""
    ours, theirs = world.ours, world.theirs
    pairs = list(zip(questions(ours, theirs), questions(ours, theirs._replace(**NOWHERE)), strict=True))
    pairs = [pair for pair in pairs if pair[0].operation not in SPOILING and pair[0] != pair[1]]
    ways = [world.ways[name] for name in ("tenant", "narrow key", "see-only key", "link", "nobody", "revoked key")]
    while True:
        (real, made_up), way = chance.choice(pairs), chance.choice(ways)
        yield Attack(
            "tells", f"{way.name}: {real}", as_request(real, way), is_denied(real, way), as_request(made_up, way),
            (*_said(real), *_said(made_up)),
        )  # fmt: skip


CURSORS = {"after", "before", "next", "start", "older", "newer", "upto", "at", "limit", "old", "last", "backward"}
JUNK_CURSORS = (
    "-1", "0", "1", "9" * 18, "9" * 19, "9" * 40, "0-0", "1-1", "1-2-3", "999999999-999999999", "0.0.0", "1.1.1",
    "-9223372036854775808.1.1", "9223372036854775807.9223372036854775807.1", "'", "1 OR 1=1", "1;--", "%", "٣", "1e9",
    "1e999", "NaN", "true", "null", "[]", "{}", "", " ", "\0", "AAAA", "eyJhIjoxfQ==", "x" * 5000, "0x10", "1_0", "+1",
)  # fmt: skip


def cursors(world: World, chance: Random) -> Iterator[Attack]:
    """Where a page, a tail or a stream goes on: made up, or of a page that another principal was given."""
    taken = [*JUNK_CURSORS, world.theirs.session, world.theirs.private, world.theirs.key, str(world.theirs.grant)]
    places = [
        (operation, parameter.name)
        for operation in load().values() if operation.route.startswith("GET ")
        for parameter in operation.parameters if parameter.name in CURSORS
    ]  # fmt: skip
    while True:
        operation, name = chance.choice(places)
        way = chance.choice(list(world.ways.values()))
        own = {p.name: _own(p.name, world) for p in operation.parameters if p.required}
        asked = {**own, name: _cursor(taken, chance)}
        if operation.name in ("search", "recall") and chance.random() < 0.7:
            asked["query"] = chance.choice(("please", "chosen", "is", "lorem"))
        question = Question(operation.name, asked)
        yield Attack(
            "cursors", f"{way.name}: {question}", as_request(question, way), is_denied(question, way),
            said=_said(question),
        )  # fmt: skip


def _cursor(taken: list[str], chance: Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(taken)
    numbers = [str(chance.choice((0, 1, chance.randrange(2**10), chance.randrange(2**40), chance.randrange(2**62))))
               for _ in range(chance.randrange(1, 4))]  # fmt: skip
    return chance.choice("-.,").join(numbers)


def _own(name: str, world: World) -> Any:
    return getattr(world.ours, NAMES[name]) if name in NAMES else PLAIN.get(name, "x")


PAYLOADS: tuple[Any, ...] = (
    "' OR 1=1 --",
    "'; DROP TABLE event; --",
    '" OR ""="',
    "x') UNION SELECT id, title FROM session --",
    "%",
    "_%",
    "\\",
    "$1",
    ":session",
    "{session}",
    "{key}",
    "%s",
    "{0.__class__}",
    "{{7*7}}",
    "${jndi:ldap://x}",
    "*",
    "NEAR(a b)",
    '"',
    "a AND",
    "text:walnut",
    "^walnut",
    "{walnut}",
    "-walnut",
    "a OR walnut*",
    "(a+)+$",
    "a*" * 200,
    "../../etc/passwd",
    "/etc/passwd\0.txt",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "\x1b]0;owned\x07",
    "\r\nX-Injected: 1",
    "\r\n\r\nHTTP/1.1 200 OK\r\n",
    "\0",
    "\ud800",
    "\u202ewalnut",
    "\ufeff",
    "\uff11\uff12",
    "x" * 100_000,
    "1e999",
    "-1",
    str(2**63),
    str(2**64),
    "NaN",
    "true",
    "null",
    "*" * 3,
    "person:*",
    "team:*",
    "=cmd|' /C calc'!A0",
    "walnut-project",
    "person:walnut",
    "walnut-agent",
    "walnutword",
    2**63,
    2**64,
    -1,
    1e308,
    True,
    None,
    [],
    {},
    [[]],
    ["walnut-project"],
    {"$ne": ""},
    {"session": "x"},
)


def injections(world: World, chance: Random) -> Iterator[Attack]:
    """Every parameter of every operation, with what somebody down the line could obey."""
    places = [
        (operation, parameter.name)
        for operation in load().values() if operation.route and operation.name not in SPOILING - {"open", "remember"}
        for parameter in operation.parameters if parameter.name not in ("drafts", "witnesses")
    ]  # fmt: skip
    ways = [world.ways[name] for name in ("tenant", "browser", "narrow key", "see-only key", "link")]
    while True:
        operation, name = chance.choice(places)
        way, payload = chance.choice(ways), chance.choice(PAYLOADS)
        own = {p.name: _own(p.name, world) for p in operation.parameters if p.required}
        question = Question(operation.name, {**own, name: payload})
        yield Attack(
            "injections", f"{way.name}: {repr(question)[:300]}", as_request(question, way),
            is_denied(question, way), said=_said(question),
        )  # fmt: skip


def streams(world: World, chance: Random) -> Iterator[Attack]:
    places = ("0", "1", "999999999", "-1", "1e3", "9" * 18, "9" * 30, "walnut", "")
    while True:
        way, session = chance.choice(list(world.ways.values())), chance.choice(_sessions(world, chance))
        path = chance.choice((f"/v1/sessions/{session}/stream", "/v1/stream"))
        asked = [("after", chance.choice(places))]
        if path == "/v1/stream" and chance.random() < 0.6:
            asked.append(("project", chance.choice((world.theirs.project, VAULT, world.ours.project, "*", ""))))
        headers = way.headers
        if chance.random() < 0.4:
            headers = (*headers, ("Last-Event-ID", chance.choice(places)))
        denied = way.rights is not None and "read" not in way.rights
        yield Attack(
            "streams", f"{way.name}: {path} {asked}", request("GET", query(path, asked), headers), denied,
            said=(session,), until=b": still here",
        )  # fmt: skip


def _sessions(world: World, chance: Random) -> list[str]:
    theirs = world.theirs
    return [theirs.session, theirs.private, theirs.child, theirs.session[:8], world.ours.session, world.vault.session]


def pages(world: World, chance: Random) -> Iterator[Attack]:
    """Pages for people, with the same names in their paths and queries."""
    while True:
        way, session = chance.choice(list(world.ways.values())), chance.choice(_sessions(world, chance))
        path = chance.choice((f"/sessions/{session}", f"/sessions/{session}/", "/", "/docs", "/openapi.json", "/login"))
        value = chance.choice((*JUNK_CURSORS[:20], world.theirs.project, "<script>alert(1)</script>", session))
        asked = [(chance.choice(("after", "at", "limit", "project", "query", "before")), value)]
        denied = way.rights is not None and "see" not in way.rights and path.startswith("/sessions")
        yield Attack(
            "pages", f"{way.name}: {path} {asked}", request("GET", query(path, asked), way.headers), denied,
            said=(session,),
        )  # fmt: skip


def actions(world: World, chance: Random) -> Iterator[Attack]:
    """The forms of pages, filled in about what is another's, by browsers and by whoever has a key."""
    theirs = world.theirs
    own: Headers = (("Origin", "http://{host}"),)
    while True:
        way, action = chance.choice(list(world.ways.values())), chance.choice(ACTIONS)
        session = chance.choice((theirs.session, theirs.private, theirs.child, theirs.session[:8], world.vault.session))
        names = re.findall(r"\{(\w+)\}", action.path)
        path = action.address({name: quote(_theirs(world, name, session), safe="") for name in names})
        filled = {field.name: _filled(field, world, chance) for field in action.fields}
        filled |= {"typed": chance.choice((session, session[:10], "")), action.each or "once": session}
        form = urlencode(filled).encode()
        asked = chance.choice((
            request("GET", query(path, filled.items()), way.headers),
            request("POST", path, (*way.headers, *own), form, media_type="application/x-www-form-urlencoded"),
        ))  # fmt: skip
        denied = way.rights is not None and not way.rights
        yield Attack("actions", f"{way.name}: {path} {filled}", asked, denied, said=(session, *filled.values()))


def _theirs(world: World, name: str, session: str) -> str:
    """What a parameter of this name is called at the other tenant's."""
    return str(getattr(world.theirs, NAMES[name])) if name in NAMES else session


def _filled(field: Field, world: World, chance: Random) -> str:
    match field.kind:
        case Kind.NUMBER:
            return chance.choice(("1", "3", "-1", "x", str(2**63)))
        case Kind.YES:
            return "yes"
        case _:
            words = ("admin", "codex", world.ours.person, "<script>alert(1)</script>")
            return chance.choice((*words, _theirs(world, field.name, world.theirs.project)))


def over_mcp(world: World, chance: Random) -> Iterator[Attack]:
    ours, theirs = world.ours, world.theirs
    asked = [("tools/call", {"name": tool.name, "arguments": arguments})
             for tool in tools().values() for arguments in arguments_of(tool.schema, ours, theirs)]  # fmt: skip
    for id in (theirs.session, theirs.private, theirs.session[:9], "..", f"{ours.session}/../{theirs.session}"):
        for end in ("", "/brief", "/events/1-9", "/../brief", "/events/1-99999999999999999999"):
            asked.append(("resources/read", {"uri": f"clew://session/{id}{end}"}))
    for name in prompts.PROMPTS:
        for given in ({"project": theirs.project}, {"session_id": theirs.session}, {"session_id": theirs.private}):
            asked.append(("prompts/get", {"name": name, "arguments": given}))
    asked += [("resources/list", {}), ("tools/list", {}), ("tools/call", {"name": "erase", "arguments": {}})]
    accept = (("Accept", "application/json, text/event-stream"), ("MCP-Protocol-Version", "2025-11-25"))
    while True:
        way, (method, params) = chance.choice(list(world.ways.values())), chance.choice(asked)
        body = json_body({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        yield Attack(
            "MCP", f"{way.name}: {method} {params}", request("POST", "/mcp", (*way.headers, *accept), body),
            way.rights is not None and not way.rights, said=_said(Question("", msgspec.to_builtins(params))) +
            _said(Question("", params.get("arguments", {}))),
        )  # fmt: skip
