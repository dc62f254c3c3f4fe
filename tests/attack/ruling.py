"""Attacks by somebody who may a little: rules changed by events, objects named by their digests, secrets guessed."""

from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import quote

from attack.attack import Attack
from attack.wire import json_body, query, request
from attack.world import KIND_LETTERS, VAULT, Way, World
from clew.model.events import KINDS
from clew.service.handover.own_forms import Form
from service.test_effects import BODIES, RULES

OPEN: dict[str, Any] = {"privacy_set": {"private": False}, "budget_set": {"budget": {"tokens": 10**12}}}


def rules(world: World, chance: Random) -> Iterator[Attack]:
    """Every kind of event, appended and pushed by somebody who may write and not rule; and the operations."""
    vault, forked = world.vault.session, world.vault.fork
    number = 0
    while True:
        number += 1
        way, session = world.ways["mole"], chance.choice((vault, forked))
        kind = chance.choice((chance.choice(sorted(KINDS)), chance.choice(sorted(RULES))))
        body = {**BODIES.get(kind, {}), **OPEN.get(kind, {})}
        sent = {"kind": kind, "source": f"elsewhere:{number}", "body": json_body(body).decode()}
        strange = {**sent, "kind": chance.choice((kind.upper(), f"clew.{kind}", f"{kind} ", kind.replace("_", "-")))}
        push, drafts = f"/v1/sync/sessions/{session}/events", [{"kind": kind, **body}]
        copy = {"project": VAULT, "parent": vault, "private": False, "title": "copy"}
        shared = {"who": "eve", "role": "viewer", "session": session}
        arriving: list[tuple[str, str, str, dict[str, Any], bool]] = [
            ("append", "POST", f"/v1/sessions/{session}/events", {"drafts": drafts}, kind in RULES),
            ("push", "PUT", push, {"events": [sent]}, False),
            ("push", "PUT", push, {"events": [strange, sent]}, False),
        ]
        asking: list[tuple[str, str, str, dict[str, Any], bool]] = [
            ("open", "PUT", f"/v1/sessions/{session}/privacy", {"private": False}, True),
            ("share", "PUT", f"/v1/sessions/{session}/grants", {"who": "eve"}, True),
            ("grant", "PUT", "/v1/grants", shared, True),
            ("link", "POST", f"/v1/sessions/{session}/links", {}, True),
            ("budget", "POST", f"/v1/sessions/{session}/budget", {"tokens": 10**12}, True),
            ("budget", "POST", f"/v1/sessions/{session}/budget", {"unlimited": True}, True),
            ("hold", "PUT", "/v1/retention", {"project": VAULT, "hold": True}, True),
            ("retention", "PUT", "/v1/retention", {"project": VAULT, "keep_days": 1}, True),
            ("erase", "DELETE", f"/v1/sessions/{vault}?with_forks=true", {}, True),
            ("open a copy", "PUT", f"/v1/sync/sessions/{chance.randrange(2**64):020x}", copy, True),
            ("settings", "PUT", "/v1/settings", {"name": "secrets", "value": "keep", "project": VAULT}, True),
        ]
        name, method, path, asked, denied = chance.choice(chance.choice((arriving, asking)))
        sent_body = json_body(asked) if method != "DELETE" else b""
        yield Attack("rules", f"{way.name}: {name} {kind}", request(method, path, way.headers, sent_body), denied)


def blobs(world: World, chance: Random) -> Iterator[Attack]:
    """Objects by their digests: of the other tenant, of the vault, or nobody's."""
    ours = world.ours.session
    while True:
        digest = chance.choice((world.their_blob, world.vault.blob, world.their_blob.upper(), world.their_blob[:-1]))
        nobodys = "".join(chance.choice("0123456789abcdef") for _ in range(len(digest)))

        def named(name: str) -> list[tuple[str, str, str, dict[str, Any]]]:
            part = {"type": "file", "blob": name, "media_type": "text/plain", "name": "x"}
            saved = {"kind": "artifact_saved", "name": "x", "blob": name, "size": 1}
            sent = {"kind": "artifact_saved", "source": "e:1", "body": json_body(saved).decode()}
            return [
                ("artifact", "POST", f"/v1/sessions/{ours}/events", {"drafts": [saved]}),
                (
                    "message",
                    "POST",
                    f"/v1/sessions/{ours}/events",
                    {"drafts": [{"kind": "message_added", "role": "user", "parts": [part]}]},
                ),
                ("push", "PUT", f"/v1/sync/sessions/{ours}/events", {"events": [sent]}),
                (
                    "push with other bytes",
                    "PUT",
                    f"/v1/sync/sessions/{ours}/events",
                    {"events": [sent], "blobs": {name: "eA=="}},
                ),
                (
                    "push in parts",
                    "PUT",
                    f"/v1/sync/sessions/{ours}/events",
                    {"events": [sent], "large": {name: [name]}},
                ),
                (
                    "a body in parts",
                    "PUT",
                    f"/v1/sync/sessions/{ours}/events",
                    {"events": [{"kind": "x.y", "source": "e:2", "parts": [name]}]},
                ),
                (
                    "a stretch",
                    "PUT",
                    f"/v1/sync/sessions/{ours}/originals",
                    {
                        "file": {
                            "runtime": "codex",
                            "format": "jsonl",
                            "path": "/a",
                            "native": "n",
                            "machine": "m",
                            "generation": 0,
                        },
                        "stretches": [{"upto": 5, "parts": [name], "settled": True}],
                    },
                ),
                ("read", "GET", f"/v1/sessions/{ours}/blobs/{name}", {}),
                ("read from", "GET", f"/v1/sessions/{ours}/blobs/{name}?start=3&at=1", {}),
            ]

        asked = named(digest)
        at = chance.randrange(len(asked))
        way = chance.choice([world.ways[name] for name in ("tenant", "browser", "narrow key", "link", "colleague")])
        raw, twin = (_sent(way, *place[at][1:]) for place in (asked, named(nobodys)))
        yield Attack("objects", f"{way.name}: {asked[at][0]}", raw, True, twin, (digest, digest[:80], nobodys))


def _sent(way: Way, method: str, path: str, body: dict[str, Any]) -> bytes:
    return request(method, path, way.headers, json_body(body) if body else b"")


def secrets(world: World, chance: Random) -> Iterator[Attack]:
    """Parts of masked secrets: guessed in searches, where a right guess must look like a wrong one, or read."""
    while True:
        way = world.ways[chance.choice(("mole", "colleague"))]
        yield _guessed(world, chance, way) if chance.random() < 0.7 else _read(world, chance, way)


def _guessed(world: World, chance: Random, way: Way) -> Attack:
    secret = chance.choice(world.vault.secrets)
    begin = chance.choice((0, 0, 0, chance.randrange(len(secret) - 6)))
    end = min(len(secret), begin + chance.randrange(6, len(secret)))
    guess = secret[begin:end]
    # As long and of the same letters, with the same beginning, which names only the kind.
    shift = max(0, KIND_LETTERS - begin)
    wrong = guess[:shift] + "".join(_other(letter, chance) for letter in guess[shift:])
    form = chance.choice(
        (
            "{}*",
            "{}",
            '"{}"',
            '"use {}"',
            "lorem {}*",
            "lorem -{}*",
            "use -{}",
            "{}* OR zzzzz",
            "zzzzz OR {}*",
            "dolor {}",
            "-{}* lorem ipsum",
            '"{}" -zzzzz',
            "lorem gizmo {}*",
        )
    )
    more: list[tuple[str, str]] = chance.choice(
        (
            [],
            [("flat", "true")],
            [("order", "relevant")],
            [("session", world.vault.session)],
            [("project", VAULT)],
            [("project", VAULT), ("flat", "true")],
            [("limit", "1")],
            [("role", "user")],
            [("when", "today")],
        )
    )
    path = chance.choice(("/v1/search", "/v1/search", "/v1/facts"))
    if path == "/v1/facts":
        more = [pair for pair in more if pair[0] in ("session", "project", "limit")]
    raw, twin = (
        request("GET", query(path, [("query", form.format(text)), *more]), way.headers) for text in (guess, wrong)
    )
    # What the query itself says is no leak; each word of it is a word that was asked with.
    said = (guess, wrong, guess.lower(), wrong.lower(), *_parts(guess), *_parts(wrong))
    return Attack("secrets", f"{way.name}: {path} {form.format(guess)!r} {more}", raw, False, twin, said)


def _parts(text: str) -> list[str]:
    return [text[at : at + 8] for at in range(len(text) - 7)]


def _other(letter: str, chance: Random) -> str:
    for letters in ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
        if letter in letters:
            return chance.choice(letters.replace(letter, ""))
    return letter


def _read(world: World, chance: Random, way: Way) -> Attack:
    session = chance.choice((world.vault.session, world.vault.session, world.vault.fork))
    at = chance.randrange(0, 16)
    form = chance.choice(list(Form))
    path = chance.choice(
        (
            f"/v1/sessions/{session}",
            f"/v1/sessions/{session}/events?after={at}&limit={chance.randrange(1, 9)}",
            f"/v1/sessions/{session}/transcript?limit=2",
            f"/v1/sessions/{session}/export?form={form}",
            f"/v1/sessions/{session}/export?form={form}&secrets=true",
            f"/v1/sessions/{session}/brief",
            f"/v1/sync/sessions/{session}?after={at}",
            f"/v1/sessions/{session}/blobs/{world.vault.blob}",
            f"/v1/sessions/{session}/blobs/{world.vault.blob}?start={chance.randrange(30)}",
            f"/sessions/{session}?at={at}",
            f"/v1/events?project={VAULT}&limit=5",
            "/v1/sessions",
            f"/v1/sessions/{session}/stream?after={at}",
            "/v1/artifacts",
            "/v1/artifacts/names",
            f"/v1/sessions/{session}/bundle",
            f"/v1/sessions/{world.vault.session}/diff/{world.vault.fork}",
            "/v1/scan",
            f"/v1/scan?session={session}",
            f"/v1/search?query={quote(chance.choice(('lorem', 'use', 'ipsum*', 'dolor')))}&limit=200",
            "/v1/facts?limit=100",
            f"/sessions/{world.vault.secrets[0]}",
            "/v1/usage?by=session",
            "/v1/files",
        )
    )
    said = tuple(_parts(world.vault.secrets[0])) if world.vault.secrets[0] in path else ()
    return Attack(
        "secrets",
        f"{way.name}: GET {path}",
        request("GET", path, way.headers),
        "secrets=true" in path,
        said=said,
        until=b": still here",
    )
