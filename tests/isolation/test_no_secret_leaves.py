"""No part of a secret leaves: not on any surface, for any operation, cut or not.

Secrets stand in every field that takes text, at every distance from where a text is cut. Whoever may read but not
export asks for everything, and no 8 characters in a row of any secret are in any answer.
"""

import base64
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from clew.mcp import prompts, resources
from clew.mcp.server import for_llm
from clew.mcp.tools import tools
from clew.model.access import ROLES, Grant, Right, owner_of_everything
from clew.model.errors import ClewError
from clew.model.events import ArtifactSaved, Draft, FilePart, MessageAdded, RuntimeAttached
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.service.handover.own_forms import Form
from clew.service.kernel.registry import load
from clew.service.kernel.results import to_json
from clew.store import Store, open_store
from clew.store.access.grants import add_grant
from clew.store.access.principals import Principal, set_principal
from clew.store.objects import objects
from isolation.tenants import NAMES, PLAIN, Question
from parity.surfaces import over_http
from server.running import OWNER, Running, listening, viewer
from support.fake_secrets import KINDS

R = random.Random(31)
# The kinds without a form that many texts share.
SECRETS = {
    name: make(R)
    for name, make in KINDS.items()
    if name in ("GITHUB_TOKEN", "GITLAB_TOKEN", "AWS_ACCESS_KEY_ID", "SLACK_BOT", "GITHUB_PAT", "PULUMI_TOKEN")
}
PASSWORD = "Tq7vRz2mWk9x"
WHOLE = [*SECRETS.values(), PASSWORD]
PARTS = {secret[at : at + 8] for secret in WHOLE for at in range(4, len(secret) - 7)}
PROJECT = "shop"
WORDS = "lorem ipsum dolor sit amet".split()


def careless(number: int) -> str:
    """A text with every secret, each at another distance from the beginning."""
    told = [f"{'lorem ' * (number + 5 * i)}use {secret} for it" for i, secret in enumerate(SECRETS.values())]
    return f"{' '.join(told)} password={PASSWORD}; done"


def short(number: int) -> str:
    return f"{'x' * number} {list(SECRETS.values())[number % len(SECRETS)]} then"


def drafts(store: Store) -> Iterator[dict[str, Any] | Draft]:
    blob = objects.save(store, careless(1).encode())
    wide = objects.save(store, careless(2).encode("utf-16"))
    for number in range(0, 60, 11):
        yield {"kind": "message_added", "role": "user", "text": careless(number)}
        yield {
            "kind": "call_made",
            "call": f"{number}",
            "tool": "Read",
            "input": {"file_path": f"/a/{careless(number)}"},
        }
        yield {"kind": "call_returned", "call": f"{number}", "output": {"text": careless(number)}, "failed": True}
        yield {"kind": "fact_learned", "fact": f"f{number}", "text": short(number)}
        yield {"kind": "decision_made", "decision": f"d{number}", "choice": short(number), "why": careless(number)}
    yield {"kind": "usage_counted", "usage": {"input": 7}, "model": short(3), "message": "m"}
    yield {"kind": "progress_noted", "done": careless(3), "next": careless(11), "open": [careless(4)]}
    yield {"kind": "scratch_set", "name": "n", "value": {"secret": careless(5)}}
    yield Draft(body=RuntimeAttached(runtime="codex", machine=short(4), cwd=f"/home/{short(9)}"))
    yield Draft(body=ArtifactSaved(name=short(2), blob=blob, media_type="text/plain", size=9))
    for name in (blob, wide):
        part = FilePart(blob=name, media_type="text/plain", name=short(6))
        yield Draft(body=MessageAdded(role="user", parts=(part,)))
    # The last answer of a brief is cut at 600 characters.
    for length in range(560, 601, 10):
        yield {"kind": "message_added", "role": "assistant", "text": f"{'a b ' * (length // 4)}{WHOLE[0]} end"}


@pytest.fixture
def planted(store_url: str, tmp_path: Path) -> list[str]:
    """Sessions with secrets wherever they can be, one for each way in which a title was ever cut."""
    ids = []
    with open_store(store_url) as store:
        me = Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))
        for number, secret in enumerate(SECRETS.values()):
            title = f"{'w' * (74 - 7 * number)} {secret} and then we go on"[:80]
            metadata = {"runtime": "codex", "note": careless(number)}
            ids.append(
                call(me, "open", {"project": PROJECT, "agent": "coder", "title": title, "metadata": metadata}).id
            )
            call(me, "pause", {"session": ids[-1], "reason": careless(number)})
            call(me, "resume", {"session": ids[-1], "reason": careless(number)})
        for draft in drafts(store):
            if isinstance(draft, Draft):
                store.append(store.session(ids[0]), [draft], actor=OWNER)
            else:
                call(me, "append", {"session": ids[0], "drafts": [draft]})
        call(me, "agent_register", {"name": "coder", "project": PROJECT, "instructions": careless(8)})
        call(me, "setting_set", {"project": PROJECT, "name": "audit_reads", "value": "on"})
        ids.append(call(me, "fork", {"session": ids[0], "title": short(30)}).id)
        call(me, "close", {"session": ids[1], "outcome": "done", "summary": careless(9)})
        call(me, "erase", {"session": ids[2], "reason": careless(10)})
    ids.pop(2)
    return ids


def assert_holds_none(told: str, asked: Any) -> None:
    bare = told.replace("\\", "")
    bare += "".join(decoded(run) for run in re.findall(r"[A-Za-z0-9+/]{40,}={0,2}", bare))
    leaked = {part for part in PARTS if part in bare}
    assert not leaked, f"{asked} shows {sorted(leaked)[:5]}: ...{bare[max(0, bare.find(min(leaked)) - 80) :][:160]}"


def decoded(run: str) -> str:
    try:
        return base64.b64decode(run + "=" * (-len(run) % 4)).decode("latin-1").replace("\0", "")
    except ValueError:
        return ""


def asked(sessions: list[str]) -> Iterator[Question]:
    """Every operation, on every session; searches whose hits are cut around secrets."""
    known = {"project": PROJECT, "agent": "coder", "query": "lorem", "word": "lorem", "file": "/a", "path": "/a"}
    changing = {
        "erase",
        "close",
        "archive",
        "key_revoke",
        "access_revoke",
        "agent_remove",
        "retention_apply",
        "collect",
    }
    for operation in load().values():
        if not operation.route or operation.name in changing:
            continue
        required = [parameter for parameter in operation.parameters if parameter.required]
        for session in sessions if any(parameter.is_session for parameter in required) else sessions[:1]:
            given = {
                parameter.name: session
                if parameter.is_session or NAMES.get(parameter.name) == "session"
                else known.get(parameter.name, PLAIN.get(parameter.name, "x"))
                for parameter in required
            }
            yield Question(operation.name, given)
    for query in (
        "lorem",
        "use",
        "then",
        "done",
        "end",
        "password",
        "for it",
        '"for it"',
        "x*",
        *(s[:6] for s in WHOLE),
    ):
        for order in ("newest", "relevant"):
            yield Question("search", {"query": query, "order": order, "limit": 200, "flat": True})
        yield Question("recall", {"query": query, "limit": 100})
    for form in Form:
        yield Question("export", {"session": sessions[0], "form": str(form)})


def unpacked(text: str) -> str:
    """What a blob holds that is sent compressed."""
    packed = re.findall(r'"packed":"([0-9a-f]+)"', text)
    data = b"".join(zstandard.decompress(bytes.fromhex(one)) for one in packed)
    return data.decode("latin-1").replace("\0", "")


@pytest.fixture
def running(planted: list[str], store_url: str, tmp_path: Path) -> Iterator[Running]:
    with Running(store_url, str(tmp_path), heartbeat_seconds=0.1, rate=1_000_000) as running:
        yield running


def test_no_part_of_a_secret_is_in_an_answer_over_http(running: Running, planted: list[str]) -> None:
    for key in (running.key("person:bob", viewer("person:bob")), running.key()):
        with running.client(key) as client:
            for question in asked(planted):
                text = over_http(client, question).text
                assert_holds_none(text + unpacked(text), question)
            for event in msgspec.json.decode(client.get(f"/v1/sessions/{planted[0]}/events").content):
                for digest in re.findall(r"[0-9a-f]{64}", json.dumps(event)):
                    blob = client.get(f"/v1/sessions/{planted[0]}/blobs/{digest}")
                    assert blob.status_code == 200
                    assert_holds_none(unpacked(blob.text), digest)
                    object = client.get(f"/v1/sessions/{planted[0]}/objects/{digest}")
                    assert object.status_code == 200
                    assert_holds_none(object.content.decode("latin-1").replace("\0", ""), digest)
            for path in ("/", "/?limit=100", *(f"/sessions/{id}" for id in planted), f"/sessions/{WHOLE[0]}"):
                assert_holds_none(client.get(path).text, path)


def test_no_part_of_a_secret_is_in_a_stream(running: Running, planted: list[str]) -> None:
    key = running.key("person:bob", viewer("person:bob"))
    with listening(running, f"/v1/sessions/{planted[0]}/stream?after=0", key) as listener:
        assert_holds_none(json.dumps(listener.wait(40)), "stream")


def test_no_part_of_a_secret_is_in_what_an_llm_reads(planted: list[str], store_url: str, tmp_path: Path) -> None:
    with open_store(store_url) as store:
        set_principal(store, Principal(name="person:bob"))
        add_grant(store, viewer("person:bob"), given_by=OWNER)
        contexts = [
            Context(
                store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),),
                home=str(tmp_path),
            ),
            Authenticator(store, home=str(tmp_path), fresh_seconds=0).principal_context("person:bob"),
        ]  # fmt: skip
        for context in map(for_llm, contexts):
            for question in mcp_questions(planted):
                tool, arguments = question
                try:
                    answer = tools()[tool](context, arguments)
                    told = f"{answer.text} {msgspec.json.encode(answer.values).decode()}"
                except ClewError as error:
                    told = f"{error} {error.details}"
                assert_holds_none(told, question)
            assert_holds_none(str(resources.listed(context, "")), "resources")
            for id in planted:
                for uri in (f"clew://session/{id}", f"clew://session/{id}/brief", f"clew://session/{id}/events/1-99"):
                    try:
                        assert_holds_none(resources.read(context, uri).text, uri)
                    except ClewError as error:
                        assert_holds_none(str(error), uri)
            for name in prompts.PROMPTS:
                assert_holds_none(prompts.prompt(context, name, {"session_id": planted[0]}), name)


def mcp_questions(sessions: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    known = {"session_id": sessions[0], "query": "lorem", "text": "x", "choice": "x", "done": "x", "project": PROJECT}
    for tool in tools().values():
        required = {name: known.get(name, PLAIN.get(name)) for name in tool.schema.get("required", ())}
        for id in sessions:
            yield tool.name, {**required, **({"session_id": id} if "session_id" in required else {})}
    for query in ("use", "then", "end", "password", "for it", *(secret[:6] for secret in WHOLE)):
        yield "search_sessions", {"query": query}
        yield "recall", {"query": query}


def test_no_part_of_a_secret_is_in_what_is_written_to_a_file(
    planted: list[str], store_url: str, tmp_path: Path
) -> None:
    with open_store(store_url) as store:
        me = Context(
            store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),), home=str(tmp_path)
        )
        for form in Form:
            for id in planted:
                try:
                    for file in call(me, "export", {"session": id, "form": form}):
                        assert_holds_none(f"{file.name} {file.path} {file.data.decode('latin-1')}", (form, id))
                except ClewError as error:
                    assert_holds_none(str(error), form)
        for form in ("csv", "jsonl", "otel", "bundle"):
            try:
                assert_holds_none(to_json(call(me, "audit_export", {"form": form})).decode(), form)
            except ClewError as error:
                assert_holds_none(str(error), form)


# Guessing -------------------------------------------------------------------------------------------------------------


def test_a_search_finds_no_part_of_what_is_masked(running: Running, planted: list[str]) -> None:
    """A prefix search would recover a secret letter by letter."""
    with running.client(running.key("person:bob", viewer("person:bob"))) as client:
        for secret in WHOLE:
            for query in (secret, *(f"{secret[:length]}*" for length in (13, 16))):
                for more in ({}, {"flat": True}, {"order": "relevant"}, {"session": planted[0]}, {"project": PROJECT}):
                    found = over_http(client, Question("search", {"query": query, **more})).text
                    page = msgspec.json.decode(found)
                    shown = [page[name] for name in ("hits", "sessions", "total", "next")]
                    assert not any(shown), found
                assert '"found":[]' in over_http(client, Question("recall", {"query": query})).text
            # A partial match with a guess is the one with a word that nobody wrote.
            for more in ({}, {"flat": True}):
                partial, other = (
                    over_http(client, Question("search", {"query": f"lorem gizmo {word}*", **more})).text
                    for word in (secret[:13], "q" * 13)
                )
                assert partial == other
                assert '"partial":true' in partial
            # What excludes a word shows that it is there.
            with_it, without = (
                over_http(client, Question("search", {"query": query, "limit": 200, "flat": True})).text
                for query in ("lorem", f"lorem -{secret[:13]}*")
            )
            assert hits(with_it) == hits(without) != []
        assert hits(over_http(client, Question("search", {"query": "lorem", "flat": True})).text)
    with running.client(running.key()) as owner:
        assert hits(over_http(owner, Question("search", {"query": f"{PASSWORD[:9]}*", "flat": True})).text)


def test_who_exports_a_project_guesses_nothing_in_a_private_session_of_it_that_is_only_read(
    running: Running, planted: list[str]
) -> None:
    """The right to export the project says nothing about a session that is private and shared for reading."""
    secret = SECRETS["GITHUB_TOKEN"]
    with running.client(running.key()) as owner:
        assert owner.put(f"/v1/sessions/{planted[0]}/privacy", json={"private": True}).status_code == 200
    bob = "person:bob"
    shared = Grant(principal=bob, rights=ROLES["viewer"], session=planted[0])
    exporting = Grant(principal=bob, rights=ROLES["writer"], project=PROJECT)
    with running.client(running.key(bob, exporting, shared)) as client:
        for query in (f"{secret[:13]}*", secret, f"lorem -{secret[:13]}*"):
            wrong = query.replace(secret[4:], "q" * len(secret[4:])).replace(secret[4:13], "q" * 9)
            for name in ("search", "recall"):
                right_guess, wrong_guess = (
                    in_session(over_http(client, Question(name, {"query": asked, "project": PROJECT})).text, planted[0])
                    for asked in (query, wrong)
                )
                assert right_guess == wrong_guess, (name, query)
        export = over_http(client, Question("export", {"session": planted[0], "form": "jsonl"})).text
        scan = over_http(client, Question("scan", {"project": PROJECT})).text
    tags = set(re.findall(r"\[REDACTED:[^:\]]+:([0-9a-f]{8})\]", decoded_files(export) + scan))
    assert tags == {"00000000"}, "a mark with a tag confirms a guess"


def in_session(page: str, session: str) -> list[Any]:
    found = msgspec.json.decode(page)
    groups = [*found.get("sessions", ()), *found.get("found", ())]
    return [group for group in groups if group["session"] == session]


def decoded_files(export: str) -> str:
    return "".join(base64.b64decode(file["data"]).decode() for file in msgspec.json.decode(export))


def hits(page: str) -> list[tuple[str, int]]:
    return [(hit["session"], hit["seq"]) for hit in msgspec.json.decode(page)["hits"]]


def test_a_guess_that_is_appended_is_not_confirmed_by_its_mark(store_url: str, tmp_path: Path) -> None:
    """Whoever may write but not export learns from a mark which rule found a secret, and not which secret it was."""
    secret, wrong = (KINDS["GITHUB_TOKEN"](random.Random(seed)) for seed in (1, 2))
    with Running(store_url, str(tmp_path)) as running:
        draft = {"kind": "message_added", "role": "user", "text": f"it is {secret}"}
        with running.client(running.key()) as owner:
            theirs = owner.post("/v1/sessions", json={"project": PROJECT}).json()["id"]
            owner.post(f"/v1/sessions/{theirs}/events", json={"drafts": [draft]})
            setting = {"project": "kept-masked", "name": "secrets", "value": "mask"}
            assert owner.put("/v1/settings", json=setting).status_code == 200
            kept = owner.post("/v1/sessions", json={"project": "kept-masked"}).json()["id"]
            owner.post(f"/v1/sessions/{kept}/events", json={"drafts": [draft]})
        may_write = Grant(principal="person:bob", rights=frozenset({Right.SEE, Right.READ, Right.APPEND}))
        key = running.key("person:bob", may_write)
        with running.client(key) as client:
            for session in (theirs, kept):
                shown = set()
                for guess in (secret, wrong):
                    guessed = {"kind": "message_added", "role": "user", "text": f"it is {guess}"}
                    assert client.post(f"/v1/sessions/{session}/events", json={"drafts": [guessed]}).is_success
                for path in (f"/v1/sessions/{session}/events", f"/v1/scan?session={session}"):
                    shown |= set(re.findall(r"\[REDACTED:[^\]]+\]", client.get(path).text))
                export = over_http(client, Question("export", {"session": session, "form": "jsonl"})).text
                shown |= set(re.findall(r"\[REDACTED:[^\]]+\]", export + base64.b64decode(data_of(export)).decode()))
                assert len(shown) == 1, shown


def data_of(export: str) -> str:
    return str(msgspec.json.decode(export)[0]["data"])


def test_marks_of_two_projects_differ_and_those_of_one_tell_which_secrets_are_the_same(
    store_url: str, tmp_path: Path
) -> None:
    secret = KINDS["GITHUB_TOKEN"](random.Random(1))
    marks = []
    with open_store(store_url) as store:
        me = Context(
            store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),), home=str(tmp_path)
        )
        for project in ("shop", "shop", "bank"):
            id = call(me, "open", {"project": project}).id
            call(me, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": secret}]})
            [file] = call(me, "export", {"session": id, "form": "jsonl"})
            marks += re.findall(rb"\[REDACTED:[^\]]+\]", file.data)
    assert marks[0] == marks[1] != marks[2]
