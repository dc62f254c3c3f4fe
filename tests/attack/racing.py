"""Races between an end and a use: whatever is revoked, closed or erased stays so, whoever is in the middle of it."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import msgspec

from attack.attack import Race
from attack.wire import Answer, json_body, request, send
from attack.world import World, bearer

# A right that was taken away is gone within a second; a busy machine gets more time than that, and no more.
PATIENCE_SECONDS = 8.0
# It is refused for good when nobody was let in for this long: a server remembers rights for half a second.
QUIET_SECONDS = 0.7
USERS = 4


class Owner:
    """The owner of the store, who gives and takes while others use."""

    def __init__(self, world: World, port: int) -> None:
        self._world, self._port = world, port

    def ask(self, method: str, path: str, **body: Any) -> Any:
        raw = request(method, path, bearer(self._world.root), json_body(body) if body else b"")
        answer = send(self._port, raw)
        if not answer.is_done:
            raise AssertionError(f"the owner was refused {method} {path}: {answer.text[-300:]!r}")
        return msgspec.json.decode(answer.text.partition(b"\r\n\r\n")[2] or b"null")


def used_after(use: Callable[[], Answer], end: Callable[[], object]) -> str:
    """Use something from several threads, end it in the middle, and look whether all of them are refused for good."""
    stopped = threading.Event()
    last_good = [time.monotonic()]

    def run() -> None:
        while not stopped.is_set():
            if use().is_done:
                last_good[0] = time.monotonic()

    with ThreadPoolExecutor(USERS) as pool:
        users = [pool.submit(run) for _ in range(USERS)]
        try:
            if not use().is_done:
                return "it was not good before, so that this shows nothing"
            end()
            limit = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < last_good[0] + QUIET_SECONDS:
                if time.monotonic() > limit:
                    return "it was still good long after its end"
                if use().is_done:
                    last_good[0] = time.monotonic()
        finally:
            stopped.set()
        for user in users:
            user.result()
    return "it came back after it had ended" if use().is_done else ""


def races(world: World, chance: Random) -> Iterator[Race]:
    kinds = [_key_revoked, _parent_revoked, _grant_revoked, _made_private, _disabled, _login_twice, _erased, _streamed]
    number = 0
    while True:
        chance.shuffle(kinds)
        for kind in kinds:
            number += 1
            yield Race("races", f"{kind.__name__[1:].replace('_', ' ')}, number {number}", kind(world, number))


Run = Callable[[int], str]


def _reading(port: int, session: str, key: str) -> Callable[[], Answer]:
    raw = request("GET", f"/v1/sessions/{session}/events?limit=1", bearer(key))
    return lambda: send(port, raw)


def _racer(owner: Owner, number: int) -> tuple[str, str, str, int]:
    """Somebody with a key, a session that they may read, and the grant that lets them."""
    who = f"person:racer{number}"
    session = owner.ask("POST", "/v1/sessions", project=f"race{number}")["id"]
    grant = owner.ask("PUT", "/v1/grants", who=who, role="writer", project=f"race{number}")["id"]
    return who, owner.ask("POST", "/v1/keys", principal=who)["key"], session, grant


def _id(key: str) -> str:
    return key.split("_")[2]


def _key_revoked(world: World, number: int) -> Run:
    def run(port: int) -> str:
        owner = Owner(world, port)
        _, key, session, _ = _racer(owner, number)
        return used_after(_reading(port, session, key), lambda: owner.ask("DELETE", f"/v1/keys/{_id(key)}"))

    return run


def _parent_revoked(world: World, number: int) -> Run:
    def run(port: int) -> str:
        owner = Owner(world, port)
        _, key, session, _ = _racer(owner, number)
        made = send(port, request("POST", "/v1/keys", bearer(key), json_body({"label": "child"})))
        child = msgspec.json.decode(made.text.partition(b"\r\n\r\n")[2])["key"]
        return used_after(_reading(port, session, child), lambda: owner.ask("DELETE", f"/v1/keys/{_id(key)}"))

    return run


def _grant_revoked(world: World, number: int) -> Run:
    def run(port: int) -> str:
        owner = Owner(world, port)
        _, key, session, grant = _racer(owner, number)
        return used_after(_reading(port, session, key), lambda: owner.ask("DELETE", f"/v1/grants/{grant}"))

    return run


def _made_private(world: World, number: int) -> Run:
    def run(port: int) -> str:
        owner = Owner(world, port)
        _, key, session, _ = _racer(owner, number)
        path = f"/v1/sessions/{session}/privacy"
        return used_after(_reading(port, session, key), lambda: owner.ask("PUT", path, private=True))

    return run


def _disabled(world: World, number: int) -> Run:
    def run(port: int) -> str:
        owner = Owner(world, port)
        who, key, session, _ = _racer(owner, number)
        path = f"/v1/principals?principal={who}"
        return used_after(_reading(port, session, key), lambda: owner.ask("DELETE", path))

    return run


def _login_twice(world: World, number: int) -> Run:
    """A link for one login, opened by many at once."""

    def run(port: int) -> str:
        from clew.service.access.authenticator import Authenticator
        from clew.store import open_store

        with open_store(world.url) as store:
            secret = Authenticator(store).new_login_secret(world.ours.person, given_by="person:root")
        raw = request("POST", "/login", (("Origin", "http://{host}"),), json_body({"token": secret}))
        with ThreadPoolExecutor(8) as pool:
            done = sum(answer.is_done for answer in pool.map(lambda _: send(port, raw), range(8)))
        return "" if done == 1 else f"{done} logged in with a link for one login"

    return run


def _erased(world: World, number: int) -> Run:
    """A session that is erased while others read it."""

    def run(port: int) -> str:
        owner = Owner(world, port)
        _, key, session, _ = _racer(owner, number)
        canary = f"canary{number}word"
        draft = {"kind": "message_added", "role": "user", "text": canary}
        owner.ask("POST", f"/v1/sessions/{session}/events", drafts=[draft])
        paths = (f"/v1/sessions/{session}/events", f"/v1/sessions/{session}/export?form=jsonl", f"/sessions/{session}",
                 f"/v1/events?project=race{number}", f"/v1/search?query={canary}&flat=true")  # fmt: skip
        raws = [request("GET", path, bearer(key)) for path in paths]
        with ThreadPoolExecutor(USERS) as pool:
            reading = [pool.submit(send, port, raw) for raw in raws * 3]
            owner.ask("DELETE", f"/v1/sessions/{session}")
            after = [send(port, raw) for raw in raws]
            for answer in reading:
                answer.result()
        shown = [
            path for path, answer in zip(paths, after, strict=True) if b'"text":"' + canary.encode() in answer.text
        ]
        return f"it was still shown by {shown[0]}" if shown else ""

    return run


def _streamed(world: World, number: int) -> Run:
    """A stream that is open while its listener's key ends."""

    def run(port: int) -> str:
        owner = Owner(world, port)
        _, key, session, _ = _racer(owner, number)
        stream = request("GET", f"/v1/sessions/{session}/stream?after=0", bearer(key))
        with ThreadPoolExecutor(1) as pool:
            heard = pool.submit(send, port, stream, seconds=PATIENCE_SECONDS, until=b"event: problem")
            said = used_after(_reading(port, session, key), lambda: owner.ask("DELETE", f"/v1/keys/{_id(key)}"))
            draft = {"kind": "message_added", "role": "user", "text": f"after{number}end"}
            owner.ask("POST", f"/v1/sessions/{session}/events", drafts=[draft])
            return said or ("it came over the stream" if f"after{number}end".encode() in heard.result().text else "")

    return run
