"""Attacks on the way in: forged credentials, headers, paths and bodies that two programs could read differently."""

import base64
import gzip
import json
import zlib
from collections.abc import Iterator
from random import Random
from urllib.parse import quote

import zstandard

from attack.attack import Attack
from attack.wire import json_body, query, request
from attack.world import Headers, Way, World, bearer
from clew.service.access.key_text import ALPHABET, Token

SAID = {"drafts": [{"kind": "message_added", "role": "user", "text": "planted"}]}
READS = ("/v1/me", "/v1/sessions", "/v1/search?query=please", "/v1/events", "/v1/keys", "/v1/stream?after=0")


def tokens(world: World, chance: Random) -> Iterator[Attack]:
    """Credentials that nobody made, and real ones where they do not belong."""
    while True:
        about, headers, path = _forged(world, chance)
        path = path or chance.choice(READS)
        if path == "/v1/sessions" and chance.random() < 0.3:
            raw = request("POST", path, headers, json_body({"project": world.ours.project}))
        else:
            raw = request("GET", path, headers)
        yield Attack("forged tokens", f"{about}: {path}", raw, True, until=b": still here")


def _forged(world: World, chance: Random) -> tuple[str, Headers, str]:
    mine, theirs = world.ours.secret, world.theirs.key
    _, kind, id, secret, _ = mine.split("_")
    random = "".join(chance.choice(ALPHABET) for _ in range(43))
    at = chance.randrange(43)
    changed = secret[:at] + chance.choice(ALPHABET.replace(secret[at], "")) + secret[at + 1 :]
    other_kind = chance.choice(("person", "agent", "service", "link", "browser", "up", "root", ""))
    cookie = dict(world.ways["browser"].headers)["Cookie"].partition("=")[2]
    dead = chance.choice(world.dead())
    forged = [
        ("their id, a random secret", bearer(Token(kind, theirs, random).text)),
        ("their id, my secret", bearer(Token(other_kind, theirs, secret).text)),
        ("my id, one letter changed", bearer(Token(kind, id, changed).text)),
        ("my key, a wrong checksum", bearer(f"clew_{kind}_{id}_{secret}_{'0' * 8}")),
        ("my key, cut", bearer(mine[: -chance.randrange(1, 40)])),
        ("an unknown id", bearer(Token(kind, random[:12], secret).text)),
        ("an empty secret", bearer(Token(kind, theirs, "").text)),
        ("a wildcard", bearer(Token(kind, "%" * 12, "%" * 43).text)),
        ("SQL for an id", bearer(Token(kind, "' OR 1=1 -- "[:12], secret).text)),
        ("no clew key", bearer(chance.choice(("", "x", "null", "undefined", "owner", "('owner',)", "person:root")))),
        ("a JWT without an algorithm", bearer(_jwt({"alg": "none"}, ""))),
        ("a JWT with a secret", bearer(_jwt({"alg": "HS256", "kid": "../../dev/null"}, random))),
        ("another scheme", (("Authorization", f"{chance.choice(('Basic', 'Token', 'Digest', 'ApiKey'))} {mine}"),)),
        ("Basic with a key", (("Authorization", f"Basic {base64.b64encode(f'x:{mine}'.encode()).decode()}"),)),
        ("two keys in a header", bearer(f"{Token(kind, theirs, random).text}, {mine}")),
        (
            "a key in another header",
            ((chance.choice(("X-Api-Key", "X-Auth-Token", "Api-Key", "Proxy-Authorization")), mine),),
        ),
        ("a key as a cookie", (("Cookie", f"clew={mine}"),)),
        ("a key as another cookie", (("Cookie", f"__Host-clew={cookie}; session={mine}"),)),
        ("a cookie as a key", bearer(cookie)),
        ("the principal in a header", (("X-Forwarded-User", "person:root"), ("Remote-User", "person:root"))),
        ("two keys", (*bearer(Token(kind, theirs, random).text), *bearer(mine))),
        ("the hash of a key", bearer(Token(kind, id, "0" * 43).text)),
        (dead.name, dead.headers),
    ]
    if chance.random() < 0.1:
        name = chance.choice(("key", "token", "access_token", "api_key", "authorization"))
        return "a key in the query", (), query("/v1/me", [(name, mine)])
    return (*chance.choice(forged), "")


def _jwt(header: dict[str, str], signature: str) -> str:
    parts = [header, {"sub": "person:root", "aud": "http://127.0.0.1", "scope": "clew:see clew:read", "exp": 2**40}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, signature])


def logins(world: World, chance: Random) -> Iterator[Attack]:
    """The forms for logging in and out, posted with what must not open anything, or by pages of other sites."""
    browser = world.ways["browser"]
    cookie = browser.headers[:1]
    used = world.ways["used login"].headers[0][1].partition(" ")[2]
    revoked = world.ways["revoked key"].headers[0][1].partition(" ")[2]
    orphan = world.ways["browser as a key"].headers[0][1].partition(" ")[2]
    own: Headers = (("Origin", "http://{host}"),)
    foreign: list[Headers] = [
        (("Origin", "https://evil.example"),),
        (("Origin", "null"),),
        (("Origin", "http://127.0.0.1"),),
        (("Origin", "http://{host}.evil.example"),),
        (("Origin", "http://evil.example#{host}"),),
        (("Origin", "http://{host}"), ("Sec-Fetch-Site", "cross-site")),
        (("Origin", "http://{host}"), ("Sec-Fetch-Site", "same-site")),
        (("Origin", "{host}"),),
        (("Origin", "http://"),),
        (("Sec-Fetch-Site", "cross-site"),),
        (("Origin", "http://localhost:1"),),
    ]
    while True:
        strange = chance.choice(foreign)
        token = chance.choice((used, revoked, orphan, "", "x", world.ours.secret[:-1] + "0", None, ["a"], 1, {}))
        yield chance.choice(
            (
                Attack(
                    "logins",
                    f"log in with {token!r:.20}",
                    request("POST", "/login", own, json_body({"token": token})),
                    True,
                ),
                Attack(
                    "logins",
                    f"log in from {strange}",
                    request("POST", "/login", strange, json_body({"token": world.ours.secret})),
                    "Origin" in dict(strange) or "Sec-Fetch-Site" in dict(strange),
                ),
                Attack(
                    "logins",
                    "replace a login unseen",
                    request("POST", "/login", browser.headers, json_body({"token": world.ours.secret})),
                    True,
                ),
                Attack(
                    "logins",
                    "a form of another media type",
                    request(
                        "POST",
                        "/login",
                        own,
                        json_body({"token": world.ours.secret}),
                        media_type=chance.choice(("text/plain", "multipart/form-data")),
                    ),
                    True,
                ),
                Attack(
                    "logins",
                    f"post from {strange}",
                    request("POST", "/v1/sessions", (*cookie, *strange), json_body({"project": world.ours.project})),
                    True,
                ),
                Attack(
                    "logins",
                    f"end from {strange}",
                    request("DELETE", f"/v1/keys/{world.ours.key}", (*cookie, *strange)),
                    True,
                ),
                Attack(
                    "logins",
                    "post without an origin",
                    request("POST", "/v1/sessions", cookie, json_body({"project": world.ours.project})),
                    True,
                ),
                Attack("logins", f"log out from {strange}", request("POST", "/logout", (*cookie, *strange)), True),
            )
        )


def credentials(world: World, chance: Random) -> Iterator[Attack]:
    """Narrowed credentials that would make wider ones, and anybody who would make one for somebody else."""
    ours, theirs = world.ours, world.theirs
    narrow = [way for way in world.ways.values() if not way.makes]
    anybody = list(world.ways.values())
    while True:
        way, other = chance.choice(narrow), chance.choice(anybody)
        scopes = chance.sample(["see", "read", "append", "administer", "export", "audit"], chance.randrange(1, 5))
        who = chance.choice(
            (theirs.person, "person:root", "person:keeper", "root", "service:clew", "link:x", "team:core")
        )
        made: list[tuple[Way, str, str, dict[str, object]]] = [
            (way, "POST", "/v1/keys", {"label": "x"}),
            (way, "POST", "/v1/keys", {"scopes": scopes}),
            (way, "POST", "/v1/keys", {"project": ours.project, "days": 3650}),
            (way, "POST", f"/v1/keys/{ours.key}/rotate", {}),
            (way, "DELETE", f"/v1/keys/{ours.key}", {}),
            (way, "POST", f"/v1/sessions/{ours.session}/links", {"days": 365}),
            (way, "PUT", f"/v1/sessions/{ours.session}/grants", {"who": "eve"}),
            (way, "POST", "/v1/access/end", {"principal": ours.person}),
            (way, "GET", f"/v1/access/held?principal={quote(ours.person)}", {}),
            (other, "POST", "/v1/keys", {"principal": who}),
            (other, "POST", "/v1/keys", {"principal": who, "scopes": scopes}),
            (other, "POST", f"/v1/keys/{theirs.key}/rotate", {}),
            (other, "DELETE", f"/v1/keys/{theirs.key}", {}),
            (other, "POST", "/v1/access/end", {"principal": who}),
            (other, "GET", f"/v1/access/held?principal={quote(who)}", {}),
            (other, "PUT", "/v1/principals", {"principal": who, "issuer": "https://id.example", "subject": "evil"}),
            (other, "DELETE", f"/v1/principals?principal={quote(who)}", {}),
            (other, "PUT", "/v1/teams/members", {"name": "core", "principal": ours.person}),
            (other, "PUT", "/v1/grants", {"who": ours.person, "role": "admin"}),
            (other, "PUT", "/v1/grants", {"who": ours.person, "role": "admin", "project": theirs.project}),
            (other, "PUT", "/v1/grants", {"who": ours.person, "role": "admin", "agent": theirs.agent}),
            (other, "PUT", "/v1/grants", {"who": ours.person, "role": "viewer", "session": theirs.session}),
            (other, "PUT", "/v1/audit/countersigned", {"origin": "clew/evil", "key": "x"}),
            (other, "PUT", "/v1/settings", {"name": "secrets", "value": "off", "project": theirs.project}),
            (other, "PUT", "/v1/settings", {"name": "audit_reads", "value": "off"}),
            (other, "PUT", "/v1/retention", {"keep_days": 1}),
            (other, "POST", "/v1/blobs/collect", {}),
            (other, "POST", "/v1/jobs", {"kind": "retention"}),
        ]
        by, method, path, body = chance.choice(made)
        yield Attack(
            "credentials",
            f"{by.name}: {method} {path} {body}",
            request(method, path, by.headers, json_body(body) if method in ("POST", "PUT") else b""),
            True,
        )


def headers(world: World, chance: Random) -> Iterator[Attack]:
    """Headers that come twice, that name another host or path, and bodies with two ends."""
    key, victim = bearer(world.ours.secret), f"/v1/sessions/{world.theirs.session}"
    body = json_body({"project": world.ours.project})
    post = (
        f"POST /v1/sessions HTTP/1.1\r\nHost: {{host}}\r\nAuthorization: {key[0][1]}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n"
    )
    hidden = f"DELETE {victim} HTTP/1.1\r\nHost: {{host}}\r\nAuthorization: {key[0][1]}\r\nConnection: close\r\n\r\n"
    twice = (
        "Host",
        "Authorization",
        "Origin",
        "Content-Type",
        "If-Match",
        "Idempotency-Key",
        "Sec-Fetch-Site",
        "Cookie",
    )
    while True:
        evil = chance.choice(
            (
                "evil.example",
                "evil.example:{host}",
                "127.0.0.1.evil.example",
                "[::ffff:7f00:1]",
                "{host}@evil",
                "evil.example\\@{host}",
                "2130706433",
                "0",
                "evil.example#{host}",
            )
        )
        name = chance.choice(twice)
        ways_to = [
            ("another host", request("GET", "/v1/me", key, host=evil), True),
            ("no host", request("GET", "/v1/me", key, host=""), True),
            ("two hosts", request("GET", "/v1/me", (*key, ("Host", evil))), True),
            ("two hosts, the other first", request("GET", "/v1/me", (("hOST", "{host}"), *key), host=evil), True),
            (f"{name} twice", request("GET", "/v1/me", (*key, (name, "a"), (name.upper(), "b"))), True),
            (
                "another path",
                request("GET", "/healthz", (*key, ("X-Original-URL", victim), ("X-Rewrite-URL", victim))),
                False,
            ),
            ("another method", request("GET", victim, (*key, ("X-HTTP-Method-Override", "DELETE"))), True),
            ("another method in a query", request("GET", f"{victim}?_method=DELETE", key), True),
            ("a forwarded address", request("GET", "/metrics", (("X-Forwarded-For", "127.0.0.1"),)), True),
            ("a forwarded address", request("GET", "/metrics", (("Forwarded", "for=127.0.0.1"),)), True),
            ("a forwarded host", request("GET", "/v1/me", (*key, ("X-Forwarded-Host", "evil")), host="evil"), True),
            ("an absolute target", request("GET", f"http://evil.example{victim}", key), True),
            (
                "both ends",
                f"{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}".encode(),
                True,
            ),
            ("two lengths", f"{post}Content-Length: {len(body)}\r\nContent-Length: 0\r\n\r\n".encode() + body, True),
            ("a signed length", f"{post}Content-Length: +{len(body)}\r\n\r\n".encode() + body, True),
            ("a hexadecimal length", f"{post}Content-Length: 0x{len(body):x}\r\n\r\n".encode() + body, True),
            ("a negative length", f"{post}Content-Length: -1\r\n\r\n".encode() + body, True),
            ("a blank before a colon", f"{post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}".encode(), True),
            ("an unknown coding", f"{post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}".encode(), True),
            ("chunked twice", f"{post}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n{hidden}".encode(), True),
            (
                "a chunk with a wrong size",
                f"{post}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n".encode(),
                True,
            ),
            ("a null in a header", f"{post}X-A: a\0b\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body, True),
            ("a folded header", f"{post}X-A: a\r\n Host: evil\r\nHost: evil\r\n\r\n".encode(), True),
            ("two requests", request("GET", "/v1/me", (("Authorization", "x"),), stays=True) + hidden.encode(), True),
            ("If-Match", request("GET", victim, (*key, (chance.choice(("If-None-Match", "If-Match")), "*"))), True),
            ("a range", request("GET", victim, (*key, ("Range", "bytes=0-10"))), True),
            (
                "an answer of somebody else",
                request(
                    "POST", f"{victim}/facts", (*key, ("Idempotency-Key", REPLAYED)), json_body({"text": "replayed"})
                ),
                True,
            ),
        ]
        about, raw, denied = chance.choice(ways_to)
        yield Attack("headers", about, raw, denied)


REPLAYED = "the-key-of-their-request"


def their_request(world: World) -> bytes:
    """A request of the other tenant with an Idempotency-Key, whose answer is kept."""
    path = f"/v1/sessions/{world.theirs.session}/facts"
    return request(
        "POST", path, (*bearer(world.theirs.secret), ("Idempotency-Key", REPLAYED)), json_body({"text": "replayed"})
    )


ENDS = ("canary.txt", "clew.db", "mask.key", "up.key", "etc/passwd", "", ".", "clew.css", "../application.py")


def paths(world: World, chance: Random) -> Iterator[Attack]:
    """Paths that lead elsewhere: to files of the server, or to what another route is asked for."""
    ups = (
        "..",
        "%2e%2e",
        ".%2e",
        "%2e.",
        "..;",
        "..%00",
        "%252e%252e",
        "..\\",
        "%c0%ae%c0%ae",
        "\uff0e\uff0e",
        ".../...",
    )
    slashes = ("/", "%2f", "//", "\\", "%5c", "%252f", "/./")
    starts = ("/assets", "/errors", "/sessions", f"/v1/sessions/{world.ours.session}/blobs", "/v1", "/docs", "/mcp", "")
    while True:
        slash, up = chance.choice(slashes), chance.choice(ups)
        depth, end = chance.randrange(0, 9), chance.choice((*ENDS, world.home.strip("/") + "/canary.txt"))
        path = chance.choice(starts) + "".join(f"{slash}{up}" for _ in range(depth)) + slash + end
        if chance.random() < 0.2:
            path = chance.choice(
                (
                    f"/v1/sessions/{world.ours.session}/..{slash}{world.theirs.session}",
                    f"/v1/sessions/{world.ours.session}/blobs/{up}{slash}{up}{slash}{world.theirs.session}/events",
                    f"//v1/sessions/{world.theirs.session}",
                    f"/V1/Sessions/{world.theirs.session}",
                    f"/v1/sessions/{world.theirs.session}/",
                    f"/v1/sessions//{world.theirs.session}",
                    f"/v1/./sessions/{world.theirs.session}/events",
                    f"/v1/sessions/{world.theirs.session}?session={world.ours.session}",
                    f"/v1/sessions/{world.ours.session}/events?session={world.theirs.session}",
                    f"/v1/sessions/{world.ours.session}/diff/{up}{slash}{world.theirs.session}",
                )
            )
        path = "".join(letter if letter.isascii() else quote(letter) for letter in path) or "/"
        way = chance.choice(world.living())
        yield Attack("paths", f"{way.name}: {path}", request("GET", path, way.headers), said=(world.ours.session,))


def encodings(world: World, chance: Random) -> Iterator[Attack]:
    """Bodies in encodings, numbers and shapes that one program reads so and another otherwise."""
    path = f"/v1/sessions/{world.ours.session}/events"
    key, plain = bearer(world.ours.secret), json_body(SAID)
    theirs = world.theirs.session
    deep = b'{"drafts":' + b"[" * 5000 + b"]" * 5000 + b"}"
    while True:
        value = chance.choice(
            ("1e999", "-1e999", "NaN", "Infinity", str(2**64), str(-(2**63) - 1), "1" * 400, "0x1", "1_0")
        )
        odd = b'{"drafts":[{"kind":"scratch_set","name":"n","value":%s}]}' % value.encode()
        kind = chance.choice(
            ("a b", "../x", "<b>", "\u202e", "x" * 300, "", "A.B", "clew.\0", "message_added ", "\x1b[2J")
        )
        sent: list[tuple[str, bytes, Headers, str, bool]] = [
            (f"the number {value}", odd, (), "application/json", True),
            (f"the kind {kind!r}", json_body({"drafts": [{"kind": kind, "x": 1}]}), (), "application/json", True),
            ("nested deeply", deep, (), "application/json", True),
            ("a bomb", gzip.compress(bytes(30_000_000)), (("Content-Encoding", "gzip"),), "application/json", True),
            (
                "a bomb in zstd",
                zstandard.compress(bytes(30_000_000)),
                (("Content-Encoding", "zstd"),),
                "application/json",
                True,
            ),
            (
                "gzip in gzip",
                gzip.compress(gzip.compress(plain)),
                (("Content-Encoding", "gzip, gzip"),),
                "application/json",
                True,
            ),
            (
                "an unknown coding",
                plain,
                (("Content-Encoding", chance.choice(("br", "compress", "x"))),),
                "application/json",
                True,
            ),
            ("broken gzip", zlib.compress(plain)[:-3], (("Content-Encoding", "gzip"),), "application/json", True),
            ("UTF-16", json.dumps(SAID).encode("utf-16"), (), "application/json", True),
            ("UTF-7", json.dumps(SAID).encode("utf-7") + b"+", (), "application/json; charset=utf-7", True),
            ("half a character", plain.replace(b"planted", b"\xff\xfe"), (), "application/json", True),
            (
                "a surrogate",
                b'{"drafts":[{"kind":"message_added","role":"user","text":"\\ud800"}]}',
                (),
                "application/json",
                False,
            ),
            ("a name twice", b'{"session":"%s",%s' % (theirs.encode(), plain[1:]), (), "application/json", True),
            ("another session", json_body({**SAID, "session": theirs}), (), "application/json", True),
            ("an unknown name", json_body({**SAID, "principal": "person:root"}), (), "application/json", True),
            (
                "another actor",
                json_body({"drafts": [{"kind": "message_added", "role": "user", "text": "x", "actor": "person:root"}]}),
                (),
                "application/json",
                False,
            ),
            (
                "another media type",
                plain,
                (),
                chance.choice(("text/plain", "application/xml", "text/json", "*/*")),
                True,
            ),
            ("lines that are none", b'{"kind":"x"}\n]\n', (), "application/x-ndjson", True),
            (
                "no object",
                chance.choice((b"[]", b"1", b'"x"', b"null", b"{", b"\0", b"{}{}")),
                (),
                "application/json",
                True,
            ),
        ]
        about, body, more, media_type, denied = chance.choice(sent)
        yield Attack("encodings", about, request("POST", path, (*key, *more), body, media_type=media_type), denied)
