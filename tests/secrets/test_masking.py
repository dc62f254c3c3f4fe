"""Masking: nothing of a secret is left, what is masked stays what it was, and masking it again changes nothing."""

import json
import random
import re
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.secrets.masking import MARK, Masker
from clew.secrets.rules import Rule, Rules, bundled, joined
from clew.secrets.scanner import Scanner
from support.fake_secrets import KINDS, corpus, shown_in

SCANNER = Scanner(bundled())
MASKER = Masker(SCANNER, b"k" * 32)
SECRETS = [make(random.Random(number)) for number, make in enumerate(KINDS.values())]

secrets = st.sampled_from(SECRETS)
names = st.sampled_from([*KINDS, "api_key", "note", "password", "kind", "data", "Authorization", ""])
words = st.text(max_size=12) | st.sampled_from(
    ["curl -u ", '"', "\\", "\n", " = ", ": ", "KEY-----", "\\n", "'", "\\u003d"]
)
texts = st.lists(words | secrets | names, max_size=6).map("".join)
scalars = (
    texts
    | st.integers(-(10**17), 10**17)
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(names | texts, inner, max_size=4) | inner.map(json.dumps)
    ),
    max_leaves=12,
)


def mask(text: str) -> str:
    return MASKER.mask(text)[0]


@given(values, st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=200)
def test_masked_json_is_json_of_the_same_shape(value: Any, indent: int | None, ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    assert shape(json.loads(mask(text))) == shape(value)


@given(values, st.sampled_from([None, 1]))
def test_json_stays_json_whatever_a_rule_takes(value: Any, indent: int | None) -> None:
    greedy = Rules(rules=(Rule(id="digits", regex="[0-9]{2}"), Rule(id="anything", regex="(?s)e.{1,9}")))
    masked, _ = Masker(Scanner(greedy), b"k").mask(json.dumps(value, indent=indent))
    assert shape(json.loads(masked)) == shape(value)


def shape(value: Any) -> Any:
    """What a value is made of, but for its texts and for scalars, which may become a mark."""
    if isinstance(value, dict):
        return [shape(one) for one in value.values()]
    return [shape(one) for one in value] if isinstance(value, list) else ""


@given(st.lists(texts | values.map(json.dumps), max_size=5).map("\n".join))
@settings(max_examples=200)
def test_masking_again_changes_nothing(text: str) -> None:
    once, _ = MASKER.mask(text)
    assert MASKER.mask(once) == (once, Counter())
    assert MASKER.mask(text.encode("utf-8", "surrogatepass"))[0] == once.encode("utf-8", "surrogatepass")


def test_no_secret_is_left_in_any_form_and_json_lines_stay_json() -> None:
    missed, lines = 0, []
    cases = list(corpus(seed=11, each=1))
    for _, form, secret, text in cases:
        masked = mask(text)
        missed += shown_in(masked, secret)
        if form in ("message", "tool output", "tool input"):
            lines.append((secret, text))
    assert missed <= 0.02 * len(cases)
    whole = mask("".join(f"{text}\n" for _, text in lines) + "{damaged")
    *masked_lines, damaged = whole.split("\n")
    assert damaged == "{damaged"
    for line, (secret, text) in zip(masked_lines, lines, strict=True):
        assert json.loads(line).keys() == json.loads(text).keys()
        assert not shown_in(line, secret)


def test_equal_secrets_have_equal_marks_however_they_are_written_and_other_keys_give_others() -> None:
    secret = KINDS["RSA_KEY"](random.Random(1))
    plain, told = mask(f"it is\n{secret}\n"), mask(json.dumps([json.dumps({"text": secret})]))
    [mark] = {found.decode() for found in re.findall(rb"\[REDACTED:[^\]]+\]", (plain + told).encode())}
    assert re.fullmatch(r"\[REDACTED:private-key:[0-9a-f]{8}\]", mark)
    assert mark not in Masker(SCANNER, b"x" * 32).mask(plain.replace(mark, secret))[0]


def test_a_mark_that_somebody_wrote_hides_nothing() -> None:
    secret = KINDS["GITHUB_TOKEN"](random.Random(2))
    assert secret not in mask(f"[REDACTED:{secret}:00000000]")
    assert secret not in mask(f"[REDACTED:github-pat:00000000]{secret}")
    like_a_rule = KINDS["PULUMI_TOKEN"](random.Random(2))
    assert like_a_rule not in mask(f"[REDACTED:{like_a_rule}:00000000]")
    url = "postgresql://app:q8Kq!{}pL2mmW@db.internal/app"
    assert "pL2mmW" not in mask(url.format("[REDACTED:github-pat:00000000]"))


def test_a_secret_that_reaches_over_strings_leaves_names_and_structure() -> None:
    begin, *lines, end = KINDS["RSA_KEY"](random.Random(3)).split("\n")
    text = json.dumps({"key": [begin, *lines, end], "after": "kept"})
    masked = json.loads(mask(text))
    assert masked["after"] == "kept"
    assert len(masked["key"]) == len(lines) + 2
    assert all(MARK.fullmatch(line.encode()) for line in masked["key"])


def test_a_secret_that_reaches_into_the_next_member_leaves_its_name() -> None:
    begin, *lines = KINDS["RSA_KEY"](random.Random(3)).split("\n")
    masked = json.loads(mask(json.dumps({"first": begin, "second": "\n".join(lines)})))
    assert masked.keys() == {"first", "second"}
    assert all(MARK.fullmatch(text.encode()) for text in masked.values())


def test_what_is_only_seen_when_another_secret_is_gone_is_masked_too() -> None:
    pairs = Rules(rules=(Rule(id="pair", regex=r"key (\w{3}) (?:key|end)"),))
    masked, counts = Masker(Scanner(pairs), b"k").mask("key aaa key bbb end")
    assert counts == {"pair": 2}
    assert not {"aaa", "bbb"} & set(masked.split())


def test_a_number_that_is_a_secret_becomes_a_mark() -> None:
    numbers = Rules(rules=(Rule(id="pin", regex=r'"pin":\s*(\d{6})'),))
    masker = Masker(Scanner(joined((bundled(), numbers))), b"k")
    masked = json.loads(masker.mask('{"pin": 123456, "n": 1234567}')[0])
    assert masked["n"] == 1234567
    assert MARK.fullmatch(masked["pin"].encode())
