"""The chain: a digest depends on every field, on every byte of the body, and on everything before."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.chain import GENESIS, body_hash, header_hash, link

HEADER: dict[str, Any] = {
    "session": "s1",
    "seq": 3,
    "kind": "message_added",
    "version": 1,
    "at": 1_000,
    "said_at": 900,
    "actor": "person:ada",
    "source": "line 7",
}


def test_a_digest_is_what_the_documentation_says() -> None:
    """Anybody can check a log with SHA-256 and a JSON encoder."""
    header = hashlib.sha256(
        json.dumps(list(HEADER.values()), separators=(",", ":"), ensure_ascii=False).encode()
    ).digest()
    body = hashlib.sha256(b'{"role":"user"}').digest()
    assert header_hash(**HEADER) == header
    assert body_hash(b'{"role":"user"}') == body
    assert link(GENESIS, header, body) == hashlib.sha256(b"clew event 1" + bytes(32) + header + body).digest()


@pytest.mark.parametrize("field", HEADER)
def test_every_field_of_the_header_counts(field: str) -> None:
    value = HEADER[field]
    others = [value + 1] if isinstance(value, int) else [value + "x", ""]
    if field in ("said_at", "source"):
        others += [None]
    for other in others:
        assert header_hash(**{**HEADER, field: other}) != header_hash(**HEADER)


def test_neighbouring_fields_do_not_run_into_each_other() -> None:
    one = header_hash(**{**HEADER, "actor": 'a","b', "source": "c"})
    two = header_hash(**{**HEADER, "actor": "a", "source": 'b","c'})
    assert one != two


@given(bodies=st.lists(st.binary(max_size=5), min_size=1, max_size=6), data=st.data())
def test_a_change_shows_in_every_later_digest(bodies: list[bytes], data: st.DataObject) -> None:
    def digests(texts: list[bytes]) -> list[bytes]:
        found, previous = [], GENESIS
        for seq, text in enumerate(texts, 1):
            previous = link(previous, header_hash(**{**HEADER, "seq": seq}), body_hash(text))
            found.append(previous)
        return found

    place = data.draw(st.integers(0, len(bodies) - 1))
    changed = [*bodies[:place], bodies[place] + b"!", *bodies[place + 1 :]]
    before, after = digests(bodies), digests(changed)
    assert before[:place] == after[:place]
    assert all(one != other for one, other in zip(before[place:], after[place:], strict=True))
