"""Numbers and kinds that every program reads alike: what is refused at the door, and what is kept as it came."""

import pytest

from clew.model import codec
from clew.model.errors import InvalidInput
from clew.model.events import Draft, Opaque
from clew.model.ids import plain_kind

ODD_NUMBERS = (
    "1e999",
    "-1e999",
    "1E400",
    "123456789012345678901234567890",
    "18446744073709551616",
    "-9223372036854775809",
)
FINE_NUMBERS = ("1e308", "1e-999", "18446744073709551615", "-9223372036854775808", "0.1234567890123456789", "-0")
ODD_KINDS = (
    "app.Über",
    "app.<script>",
    "app.a b",
    "app.\x1b[31m",
    "app.a/../b",
    "app." + "x" * 200,
    "App.kind",
    "app.a\nb",
)


@pytest.mark.parametrize("number", ODD_NUMBERS)
@pytest.mark.parametrize(
    "line", ['{"kind":"app.x","v":NUMBER}', '{"kind":"call_made","call":"c","tool":"t","input":{"a":[NUMBER]}}']
)
def test_a_number_that_programs_read_differently_is_refused(line: str, number: str) -> None:
    with pytest.raises(InvalidInput, match="number"):
        codec.draft(line.replace("NUMBER", number))


@pytest.mark.parametrize("number", FINE_NUMBERS)
def test_a_number_that_all_programs_read_alike_is_kept_as_it_came(number: str) -> None:
    draft = codec.draft(f'{{"kind":"app.x","v":{number},"text":"1e999 \\" 123456789012345678901234567890"}}')
    assert isinstance(draft.body, Opaque)
    assert f'"v":{number},' in draft.body.raw


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"a": float("-inf")}]])
def test_what_json_has_no_number_for_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="number"):
        codec.draft({"kind": "app.x", "v": value})


def test_a_captured_record_is_kept_with_its_numbers() -> None:
    body = Opaque(kind="codex.Odd", raw='{"v":1e999}')
    assert codec.encode(body) == b'{"v":1e999}'


@pytest.mark.parametrize("kind", ODD_KINDS)
def test_a_kind_has_plain_characters(kind: str) -> None:
    with pytest.raises(InvalidInput, match="kind"):
        codec.draft({"kind": kind, "v": 1})
    if kind != "App.kind":  # Programs name their records with capitals.
        with pytest.raises(InvalidInput, match="kind"):
            codec.encode(Draft(body=Opaque(kind=kind, raw="{}")).body)
    assert codec.encode(Opaque(kind=plain_kind(kind), raw="{}")) == b"{}"
