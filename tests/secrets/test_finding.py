"""What is found, what is not, and that the rules are as they should be."""

import base64
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.errors import InvalidInput
from clew.model.ids import new_id
from clew.secrets.escapes import Origins, unescaped
from clew.secrets.rules import bundled, own, with_own
from clew.secrets.scanner import PIECE, Finding, Scanner
from support.fake_secrets import ALNUM, HEX, KINDS, corpus, pem, shown_in, some, uuid

SCANNER = Scanner(bundled())
TOKEN = KINDS["GITHUB_TOKEN"]


def found(text: str | bytes) -> list[str]:
    return [finding.rule for finding in SCANNER.find(text)]


def test_nearly_every_secret_is_found_whole_in_every_form() -> None:
    missed, total = Counter[tuple[str, str]](), 0
    for kind, form, secret, text in corpus(seed=7, each=3):
        total += 1
        rest = text
        for one in reversed(SCANNER.find(text)):
            rest = rest[: one.start] + rest[one.end :]
        if shown_in(rest, secret):
            missed[kind, form] += 1
    assert len(KINDS) >= 60
    assert missed.total() <= 0.02 * total, missed.most_common(10)


def test_a_finding_says_where_and_never_what() -> None:
    secret = TOKEN(random.Random(1))
    text = f"näch {secret} ende"
    [one] = SCANNER.find(text)
    assert text[one.start : one.end] == secret
    data = text.encode()
    [one] = SCANNER.find(data)
    assert data[one.start : one.end] == secret.encode()
    assert secret not in repr(one)


def test_a_secret_is_seen_through_escaped_character_codes() -> None:
    secret = KINDS["SERVICE_API_KEY"](random.Random(9))
    text = '{"html": "token\\u003d\\u0022' + secret + '\\u0022\\u003e"}'
    assert [text[finding.start : finding.end] for finding in SCANNER.find(text)] == [secret]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_secret_in_base64_takes_the_whole_run(wrapped: bool) -> None:
    r = random.Random(3)
    inner = f"[default]\nregion = eu\ntoken = {TOKEN(r)}\nname = a longer line, so that there is something to wrap\n"
    coded = base64.b64encode(inner.encode()).decode()
    run = "\n".join(coded[at : at + 76] for at in range(0, len(coded), 76)) if wrapped else coded
    text = f"$ base64 -w0 config\n{run}\n$ exit\n"
    [one] = SCANNER.find(text)
    assert (one.rule, text[one.start : one.end]) == ("github-pat", run)


def test_a_key_is_found_by_its_beginning_and_a_mention_is_not_one() -> None:
    key = pem("RSA PRIVATE " + "KEY", lines=20)(random.Random(2))
    begin, end = key.split("\n")[0], key.split("\n")[-1]
    assert found(key[:500]) == ["private-key"]
    code = f'if "{begin}" in text:\n    raise Refused({{"why": "a key"}})\nMARKS = ("{begin}", "{end}")\n'
    assert not found(code)
    text = code + "\n" + key
    [one] = SCANNER.find(text)
    assert key in text[one.start : one.end]
    assert "raise Refused" not in text[one.start : one.end]


def test_a_secret_is_found_wherever_pieces_of_a_long_text_meet() -> None:
    secret = TOKEN(random.Random(4))
    for gap in ("\n", " ", ""):
        filler = (("lorem ipsum" + gap) * (2 * PIECE))[: PIECE - 60]
        for shift in range(0, 120, 7):
            text = filler + "x" * shift + " " + secret + " " + filler
            assert [text[finding.start : finding.end] for finding in SCANNER.find(text)] == [secret]


@pytest.mark.parametrize(
    "harmless",
    [
        'api_key = "${API_KEY}"', 'api_key = "ab12ab12ab12ab12"', "password: changeme", "token = os.environ['TOKEN']", "postgres://user:password@localhost/db",
        "curl -u admin:password https://example.com", "the key is the session key of the primary key",
        'Authorization: Bearer YOUR_API_TOKEN_HERE', "redis://:$REDIS_PASSWORD@cache:6379",
    ],
)  # fmt: skip
def test_placeholders_and_code_are_no_secrets(harmless: str) -> None:
    assert not found(harmless)


def test_ids_and_digests_are_no_secrets_even_when_they_are_called_keys() -> None:
    r = random.Random(5)
    for _ in range(50):
        lines = [
            f'"session_key": "{new_id()}"', f'"token_id": "{uuid(r)}"', f'"key": "{uuid(r)}"', f'"key": "{new_id()}"',
            f'"call_key": "toolu_{some(ALNUM, 24)(r)}"', f'sha256 key: sha256:{some(HEX, 64)(r)}',
        ]  # fmt: skip
        assert not found("\n".join(lines)), lines


def test_every_rule_compiles_and_has_a_name_that_a_mark_can_carry() -> None:
    from clew.secrets.masking import MARK
    from clew.secrets.patterns import compiled

    rules = bundled().rules
    assert len(rules) > 220
    for rule in rules:
        compiled(rule.regex)
        assert MARK.fullmatch(f"[REDACTED:{rule.id}:00000000]".encode())


def test_every_keyword_is_seen_beside_all_others() -> None:
    words = sorted({word for rule in bundled().rules for word in rule.keywords})
    text = " ".join(words).upper().encode()
    ids = {rule.id for rule in bundled().rules}
    assert set(SCANNER._candidates(text)) == ids


# The text without its escapes -----------------------------------------------------------------------------------------

escaped = st.lists(
    st.sampled_from(
        [
            b"\\",
            b"\\\\",
            b"n",
            b"u0041",
            b"u005c",
            b'"',
            b"a",
            b"\n",
            b"/",
            b"\xc3\xa9",
            b"u00e9",
            b"x\\",
            b"\\ud83e\\uddf5",
            b"\\\\udc00",
        ]
    )
).map(b"".join)


@given(escaped)
def test_every_span_of_the_plain_text_has_its_place_in_the_escaped_one(text: bytes) -> None:
    shown, origins = unescaped(text), Origins(text)
    places = [origins.span(at, at) [0] for at in range(len(shown) + 1)]  # fmt: skip
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, len(text)) or not shown
    # What two texts in a row show is what each of them shows, wherever an escape does not go across.
    for at in range(len(shown) + 1):
        if len({*places[max(0, at - 1) : at + 1]}) == 2 or at == 0:
            start = places[at]
            if not text[:start].endswith(b"\\"):
                assert unescaped(text[:start]) + unescaped(text[start:]) == shown


@given(st.binary(max_size=300))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    assert all(0 <= finding.start < finding.end <= len(data) for finding in SCANNER.find(data))


# A person's own rules -------------------------------------------------------------------------------------------------

OWN = """
[extend]
disabledRules = ["github-pat"]

[[rules]]
id = "acme-key"
regex = '''\\bacme-([0-9a-f]{16})\\b'''
keywords = ["acme-"]

[[allowlists]]
description = "the key of the examples"
targetRules = ["acme-key"]
regexes = ['''^0123456789abcdef$''']
"""


def test_a_persons_rules_add_disable_and_allow(tmp_path: Path) -> None:
    (tmp_path / "secrets.toml").write_text(OWN)
    mine = Scanner(with_own(tmp_path))
    text = "acme-00ff00ff00ff00ff acme-0123456789abcdef"
    assert mine.find(text) == [Finding("acme-key", 5, 21)]
    assert "github-pat" not in [one.rule for one in mine.find(TOKEN(random.Random(6)))]
    assert with_own(tmp_path / "nowhere") == bundled() == with_own("")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rules]\n", "line 1"),
        ("\n[[rules]]\nid = 'a'\nregex = 'x'\n[[rules]]\nid = 'b-key'\nregex = '(?<=x)y'\n", "line 5: rule 'b-key'"),
        ("[[rules]]\nid = 'Not Good'\nregex = 'x'\n", "line 1: rule 'Not Good': an id is"),
        ("[[rules]]\nid = 'none'\n", "has no regex"),
        ("[[rules]]\nid = 'group'\nregex = '(x)'\nsecretGroup = 2\n", "has 1 groups"),
        ("[[rules]]\nid = 'typo'\nregexp = 'x'\n", "line 1: Object contains unknown field `regexp`"),
        (
            "# mine\n[[allowlists]]\nregexTarget = 'page'\nregexes = ['x']\n",
            "line 2: allow-list 1: regexTarget is 'page'",
        ),
        ("[[allowlists]]\ndescription = 'nothing'\n", "allows nothing"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        own(text, "secrets.toml")
    assert says in str(refused.value)


def test_nothing_is_loaded_before_something_is_looked_for() -> None:
    code = "import clew.service.privacy.masking, clew.service.handover.export, sys; sys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
