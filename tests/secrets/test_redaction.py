"""What leaves the machine: exports in every form, scans, and what a store keeps when it is told to mask."""

import base64
import json
import random
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.model.access import Grant, Right, owner_of_everything
from clew.model.errors import Conflict, Denied, InvalidInput, NotFound
from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    FilePart,
    MessageAdded,
    Opaque,
    TextPart,
    Usage,
    UsageCounted,
)
from clew.runtimes.adapters import clew_lines
from clew.service import Context, call
from clew.service.handover.native_export import masked_pieces
from clew.service.handover.own_forms import Form
from clew.service.privacy import masking, scan
from clew.store import Store
from clew.store.objects import objects
from support.fake_secrets import KINDS, WITHIN, shown_in

R = random.Random(21)
PLANTED = {name: make(R) for name, make in KINDS.items()}
SET = {name: WITHIN.get(name, "{}").format(secret) for name, secret in PLANTED.items()}
ME = "person:ada"
# What is masked does not depend on where it was kept.
on_one_database = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Iterator[Context]:
    yield Context(
        store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(tmp_path / "mine")
    )
    masking._masker.cache_clear()


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def told(store: Store) -> list[Draft]:
    """A session that was careless: every secret in what people, models and tools said."""
    settings = "\n".join(f"{name}={value}" for name, value in SET.items())
    blob = objects.save(store, json.dumps(SET, indent=1).encode())
    bodies: list[Any] = [
        MessageAdded(role="user", text=f"here is my .env:\n{settings}\nwhy <does> it & fail?"),
        CallMade(call="1", tool="shell", input=raw({"command": f"cat > .env <<'EOF'\n{settings}\nEOF"})),
        CallReturned(call="1", output=raw({"stdout": json.dumps({"env": SET}), "exit": 0})),
        MessageAdded(
            role="user", parts=(TextPart(text="see"), FilePart(blob=blob, media_type="text/plain", name="n.txt"))
        ),
        MessageAdded(role="assistant", text="packed: " + base64.b64encode(settings.encode()).decode()),
        Opaque(kind="other.note", raw=json.dumps({"settings": SET})),
    ]
    return [Draft(body=body) for body in bodies]


@pytest.fixture
def session(context: Context) -> str:
    opened = call(context, "open", {"project": "shop", "title": f"deploy with {SET['GITHUB_TOKEN']}"})
    context.store.append(context.store.session(opened.id), told(context.store), actor=ME)
    return str(opened.id)


def left(data: bytes) -> set[str]:
    """The planted secrets that can be read in these bytes, or in the session they carry."""
    texts = [data.decode()]
    if b"<!-- clew:events" in data:
        texts += [record.decode() for _, record in clew_lines.embedded(data)]
    return {name for name, secret in PLANTED.items() for text in texts if shown_in(text, secret)}


@on_one_database
@pytest.mark.parametrize("form", [form for form in Form if form != Form.NATIVE])
def test_no_secret_is_in_any_form_of_an_export(context: Context, session: str, form: Form) -> None:
    if form == Form.MARKDOWN:
        [exact] = call(context, "export", {"session": session, "form": form, "secrets": True})
        assert len(left(exact.data)) == len(PLANTED)
        assert exact.masked == {}
    [file] = call(context, "export", {"session": session, "form": form})
    assert not left(file.data)
    assert file.masked["github-pat"] >= 1
    # Found secrets are gone for good: nothing would be masked if the file came by again.
    page, _, _ = file.data.partition(b"<!-- clew:events")
    assert not masking.masker_of(context).scanner.find(page)


def test_exact_bytes_need_the_right_to_export(context: Context, session: str) -> None:
    reader = Grant(principal="person:bob", rights=frozenset({Right.READ, Right.SEE}), project="shop")
    bob = Context(
        store=context.store, unrestricted=context.store, principal="person:bob", grants=(reader,), home=context.home
    )
    assert call(bob, "export", {"session": session})
    with pytest.raises(Denied):
        call(bob, "export", {"session": session, "secrets": True})


@on_one_database
def test_a_database_that_holds_secrets_is_refused_and_one_that_holds_none_is_not(context: Context) -> None:
    mask = masking.masker_of(context)
    clean = b"SQLite format 3\0" + b"\0" * 100 + b"hello"
    assert b"".join(masked_pieces(mask, iter([clean]), "state.db", Counter())) == clean
    holding = clean + SET["GITHUB_TOKEN"].encode()
    with pytest.raises(Conflict, match="--with-secrets"):
        b"".join(masked_pieces(mask, iter([holding]), "state.db", Counter()))


# Scanning -------------------------------------------------------------------------------------------------------------


def scanned(context: Context, **arguments: Any) -> list[Any]:
    """Every portion of a scan, to the end."""
    portions = [call(context, "scan", arguments)]
    while portions[-1].next is not None:
        portions.append(call(context, "scan", {**arguments, "after": portions[-1].next}))
    return portions


def test_a_scan_says_where_and_how_often_and_shows_no_secret(
    context: Context, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [whole] = scanned(context, session=session)
    shown = msgspec.json.encode(whole).decode()
    assert not [name for name, secret in PLANTED.items() if shown_in(shown, secret)]
    keys = [(one.seq, one.times) for one in whole.found if one.rule == "github-pat"]
    assert [seq for seq, _ in keys][:3] == [1, 2, 3]
    assert all(one.mark in one.context for one in whole.found)
    assert whole.rules["github-pat"] == sum(times for _, times in keys)
    # A small portion at a time finds the same.
    monkeypatch.setattr(scan, "SCANNED_EVENTS", 2)
    portions = scanned(context, session=session)
    assert len(portions) > 2
    assert [one for portion in portions for one in portion.found] == whole.found


def test_a_scan_looks_only_into_what_the_caller_may_read(context: Context, session: str) -> None:
    other = call(context, "open", {"project": "bank"})
    context.store.append(context.store.session(other.id), told(context.store)[:1], actor=ME)
    everything = {one.session for portion in scanned(context) for one in portion.found}
    assert everything == {session, other.id}
    assert {one.session for portion in scanned(context, project="bank") for one in portion.found} == {other.id}
    reader = Grant(principal="person:bob", rights=frozenset({Right.READ, Right.SEE}), project="bank")
    bob = Context(
        store=context.store, unrestricted=context.store, principal="person:bob", grants=(reader,), home=context.home
    )
    assert {one.session for portion in scanned(bob) for one in portion.found} == {other.id}
    with pytest.raises(NotFound):
        call(bob, "scan", {"project": "shop"})
    with pytest.raises(NotFound):
        call(bob, "scan", {"session": session})
    with pytest.raises(InvalidInput):
        call(context, "scan", {"session": session, "project": "bank"})


# Masking --------------------------------------------------------------------------------------------------------------


@on_one_database
def test_drafts_are_masked_as_what_they_are(context: Context) -> None:
    drafts = [Draft(body=draft.body, source=f"s{i}") for i, draft in enumerate(told(context.store))]
    masked = masking.mask_drafts(context, drafts)
    assert [(type(one.body), one.source) for one in masked] == [(type(draft.body), draft.source) for draft in drafts]
    text = msgspec.json.encode([one.body for one in masked]).decode()
    assert len([name for name, secret in PLANTED.items() if shown_in(text, secret)]) <= 0.02 * len(PLANTED)
    assert masking.mask_drafts(context, masked) == masked


@on_one_database
def test_a_number_that_a_rule_takes_is_kept_as_a_mark(context: Context) -> None:
    home = Path(context.home)
    home.mkdir()
    (home / "secrets.toml").write_text("[[rules]]\nid = 'count'\nregex = '\"input\":([0-9]{4})'\n")
    [masked] = masking.mask_drafts(context, [Draft(body=UsageCounted(usage=Usage(input=1234)))])
    assert isinstance(masked.body, Opaque)
    assert "[REDACTED:count:" in json.loads(masked.body.raw)["usage"]["input"]


@on_one_database
def test_marks_are_made_with_the_key_of_the_home(context: Context) -> None:
    def masked() -> str:
        masking._masker.cache_clear()
        return masking.telling_masker_of(context, "shop").mask(SET["GITHUB_TOKEN"])[0]

    first = masked()
    key = Path(context.home) / "mask.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert masked() == first
    key.unlink()
    assert masked() != first
    key.write_bytes(b"short")
    with pytest.raises(InvalidInput, match=r"5 bytes, and a key has 32"):
        masked()


@on_one_database
def test_marks_of_answers_need_no_key_and_tell_nothing(context: Context) -> None:
    answer = json.dumps([{"text": SET["GITHUB_TOKEN"]}]).encode()
    assert b"[REDACTED:github-pat:00000000]" in masking.masker(context)(answer)
    assert not (Path(context.home) / "mask.key").exists()
