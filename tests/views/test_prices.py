"""Prices: the shipped table is sound, an id never takes the price of another product, and costs are exact."""

import json
from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.errors import InvalidInput
from clew.model.events import Usage
from clew.views.prices import Price, load

SHIPPED = (files("clew.views") / "prices.json").read_text("utf-8")
ROWS = json.loads(SHIPPED, parse_float=Decimal)["models"]
PRICES = load(None)
SONNET = Price(
    input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000, cache_write_hour=6_000_000
)


def own(folder: Path, models: Any) -> Path:
    path = folder / "my-prices.json"
    path.write_text(models if isinstance(models, str) else json.dumps({"models": models}))
    return path


def test_the_shipped_table_is_sorted_with_one_model_a_line_and_dated() -> None:
    rows = [line for line in SHIPPED.splitlines() if line.startswith("    ")]
    ids = [json.loads("{" + row.strip().rstrip(",") + "}").popitem()[0] for row in rows]
    assert ids == sorted(set(ids)) == list(PRICES.models)
    assert PRICES.date == json.loads(SHIPPED)["date"] == "2026-09-22"


def test_every_shipped_price_is_plausible() -> None:
    for model, price in PRICES.models.items():
        assert 0 < price.input <= price.output <= 1_000_000_000, model
        assert 0 < price.cache_read <= price.input <= price.cache_write, model
        assert price.cache_write <= price.cache_write_hour <= 2 * price.input, model
        if model.startswith("claude-"):
            assert price.cache_write_hour == 2 * price.input, model
        assert "/" not in model, model


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-sonnet-4-5@20250929",
        "claude-sonnet-4.5",
        "claude-sonnet-4-5-latest",
        "Claude-Sonnet-4-5 ",
        "anthropic/claude-sonnet-4.5",
        "anthropic/claude-sonnet-4-5-20250929",
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_one_model_has_many_spellings(model: str) -> None:
    assert PRICES.price(model) == SONNET


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("gpt-5-2025-08-07", "gpt-5"),
        ("openai/gpt-5-codex", "gpt-5-codex"),
        ("gpt-5-high", "gpt-5"),
        ("gpt-5.3-codex-xhigh", "gpt-5.3-codex"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("google/gemini-3-pro-preview", "gemini-3-pro-preview"),
        ("gemini-flash-latest", "gemini-flash-latest"),
        ("moonshot-ai/kimi-k2.7-code", "kimi-k2.7-code"),
        ("x-ai/grok-4", "grok-4"),
        ("mistral-medium-latest", "mistral-medium-latest"),
        ("claude-opus-4-6-20260205-fast", "claude-opus-4-6-fast"),
        ("anthropic/claude-opus-4.8-fast", "claude-opus-4-8-fast"),
    ],
)
def test_what_leaves_the_price_alone_is_taken_off(model: str, known: str) -> None:
    assert PRICES.price(model) == PRICES.models[known]


@pytest.mark.parametrize(
    "model",
    [
        "gpt-5-unknownthing",
        "gpt-5.7",
        "claude-sonnet-4-7",
        "claude-opus-5-5",
        "claude-opus-4-5-fast",
        "claude-opus-4-8-fast-fast",
        "grok-4-20250709-fast-20250709",
        "claude-sonnet",
        "gpt-5-mini:free",
        "azure/gpt-5",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "accounts/fireworks/models/kimi-k2.6",
        "qwen3-235b-a22b-thinking",
        "kimi-k2.7-code-thinking",
        "20250929",
        "-latest",
        "<synthetic>",
        "",
        "anthropic/" * 100_000 + "gpt-5",
        "gpt-5" + "-low" * 100_000,
    ],
)
def test_another_product_or_somebody_elses_offer_has_no_price(model: str) -> None:
    assert PRICES.price(model) is None
    assert PRICES.cost(model, Usage(input=1)) is None


def test_a_cost_is_what_a_hand_makes_it() -> None:
    usage = Usage(input=1_000, output=200, cache_read=50_000, cache_write=4_000, reasoning=150, cost_micros=7)
    # 1,000 * $3 + 200 * $15 + 50,000 * $0.30 + 4,000 * $3.75, each for a million.
    assert PRICES.cost("claude-sonnet-4-5", usage) == 3_000 + 3_000 + 15_000 + 15_000


def test_what_is_kept_for_an_hour_is_a_part_of_the_writes_and_dearer() -> None:
    usage = Usage(cache_write=4_000, cache_write_hour=1_000)
    # 3,000 * $3.75 + 1,000 * $6, each for a million.
    assert PRICES.cost("claude-sonnet-4-5", usage) == 11_250 + 6_000
    # No more can be kept for an hour than was written at all.
    assert PRICES.cost("claude-sonnet-4-5", Usage(cache_write=1_000, cache_write_hour=9_000)) == 6_000


def test_a_fast_answer_has_the_price_of_fast_answers_or_none() -> None:
    usage = Usage(input=1_000, output=100, cache_read=10, fast=True)
    assert PRICES.cost("claude-opus-4-6", usage) == 30_000 + 15_000 + 30
    assert PRICES.cost("claude-opus-4-6-20260205", usage) == 45_030
    assert PRICES.cost("claude-sonnet-4-5", usage) is None


@pytest.mark.parametrize(("tokens", "micros"), [(1, 0), (4, 1), (5, 1), (6, 2), (0, 0)])
def test_half_a_millionth_is_rounded_up(tmp_path: Path, tokens: int, micros: int) -> None:
    # 1 -> 0.25, 4 -> 1.00, 5 -> 1.25, 6 -> 1.50
    prices = load(own(tmp_path, {"m": {"input": 0.25, "output": 1}}))
    assert prices.cost("m", Usage(input=tokens)) == micros


COUNTS = st.integers(0, 2**63)
MODELS = st.sampled_from(sorted(PRICES.models))


@given(model=MODELS, input=COUNTS, output=COUNTS, cache_read=COUNTS, brief=COUNTS, hour=COUNTS)
def test_a_cost_is_exact_however_large(
    model: str, input: int, output: int, cache_read: int, brief: int, hour: int
) -> None:
    told = {"cache_read": ROWS[model]["input"], "cache_write": ROWS[model]["input"]} | ROWS[model]
    told = {"cache_write_hour": told["cache_write"]} | told
    counts = {"input": input, "output": output, "cache_read": cache_read, "cache_write": brief}
    exact = sum(int(Decimal(told[name]) * 1_000_000) * count for name, count in counts.items())
    exact += int(Decimal(told["cache_write_hour"]) * 1_000_000) * hour
    whole, rest = divmod(exact, 1_000_000)
    usage = Usage(**counts | {"cache_write": brief + hour}, cache_write_hour=hour)
    assert PRICES.cost(model, usage) == whole + int((Decimal(rest) / 1_000_000).quantize(1, ROUND_HALF_UP))


def test_a_cache_without_a_price_costs_as_any_input(tmp_path: Path) -> None:
    base = {"input": 2, "output": 3}
    mine = {"m": base, "n": base | {"cache_read": 0}, "o": base | {"cache_write": 2.5}}
    prices = load(own(tmp_path, mine))
    assert prices.models["m"] == Price(2_000_000, 3_000_000, 2_000_000, 2_000_000, 2_000_000)
    assert prices.models["n"].cache_read == 0
    assert prices.models["o"].cache_write_hour == 2_500_000


def test_a_persons_own_prices_win_model_by_model(tmp_path: Path) -> None:
    mine = {"claude-sonnet-4-5": {"input": 1, "output": 2}, "Azure/GPT-5": {"input": 0, "output": 0.000001}}
    prices = load(own(tmp_path, mine))
    assert prices.price("claude-sonnet-4-5-20250929") == Price(1_000_000, 2_000_000, 1_000_000, 1_000_000, 1_000_000)
    assert prices.price("Azure/GPT-5") == Price(0, 1, 0, 0, 0)
    assert prices.price("gpt-5") == PRICES.price("gpt-5")
    assert prices.date == PRICES.date


def test_a_persons_own_price_of_a_dated_id_is_that_ids_alone(tmp_path: Path) -> None:
    prices = load(own(tmp_path, {"claude-sonnet-4-5-20250929": {"input": 1, "output": 2}}))
    assert prices.price("claude-sonnet-4-5-20250929") != SONNET
    assert prices.price("claude-sonnet-4-5") == SONNET


def test_the_shipped_form_can_be_given_back_as_ones_own(tmp_path: Path) -> None:
    assert load(own(tmp_path, SHIPPED)) == PRICES


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`"),
        ("[" * 100_000, "Expected `object`"),
        ('{"model": {}}', "unknown field `model`"),
        ('{"models": {"m": ' + "[" * 100_000, "recursion"),
        ({"my-model": 3}, "for 'my-model': Expected `object`"),
        ({"my-model": {"input": 3}}, "for 'my-model': .* missing required field `output`"),
        ({"my-model": {"input": 3, "output": "much"}}, r"for 'my-model': .*\$\.output"),
        ({"my-model": {"input": 3, "output": 4, "cacheread": 1}}, "for 'my-model': .* unknown field `cacheread`"),
        ({"my-model": {"input": 3, "output": -4}}, "for 'my-model': output is -4, not a price from 0"),
        ({"my-model": {"input": "NaN", "output": 4}}, "for 'my-model': input is NaN, not a price"),
        ({"my-model": {"input": "Infinity", "output": 4}}, "for 'my-model': input is Infinity, not a price"),
        ({"my-model": {"input": 0.0000001, "output": 4}}, "for 'my-model': input is 1E-7, .* at most six decimals"),
        ({"my-model": {"input": 3, "output": 4, "cache_write": 1e300}}, "for 'my-model': cache_write is 1E"),
        ({"my\x1b[31m": 3}, r"for 'my\\x1b\[31m': "),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_field(tmp_path: Path, models: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=rf"the prices in .*my-prices\.json cannot be used.*{told}.*write: {{"):
        load(own(tmp_path, models))


@pytest.mark.parametrize("text", [b'{"models": {"\xff": 1}}', b'{"models": {"m": {"\xff": 1}}}', b"\xff"])
def test_a_file_that_is_not_text_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "my-prices.json"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match=r"my-prices\.json cannot be used"):
        load(path)


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"the prices in .* cannot be read: \w+"):
        load(tmp_path / name)
