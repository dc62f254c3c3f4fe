"""What tokens cost: the providers' list prices, shipped as data with their date.

A model has one price, the current one. The table has no earlier prices, discounts, batch or priority prices, regional
surcharges, or higher prices for long prompts (above 200,000 tokens with some models: counts are sums over many prompts,
so a long prompt cannot be recognised). An answer in fast mode (`Usage.fast`) has a model id of its own, which ends in
`-fast`. A computed cost is therefore an estimate, and the cost that a program reports (`Usage.cost_micros`) is better.

A model that is not in the table has no price, because nobody would notice a wrong one: `gpt-5-something` may cost ten
times as much as `gpt-5`, so a common prefix proves nothing. The lookup removes only parts of an id that never change
the price: the provider's own name, a date, `latest`, a revision, an effort. Other hosts of a model (`azure/`,
`us.anthropic.`) set prices of their own, which a user can write into a file of the same form.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from clew.model.errors import InvalidInput
from clew.model.events import Usage
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.views.usage import UsageSum

_OWNERS = re.compile(
    r"(?:anthropic|openai|google|gemini|models|x-?ai|qwen|alibaba|dashscope|moonshot(?:-?ai)?|kimi|deepseek"
    r"|mistral(?:ai)?)/|(?:global\.)?anthropic\."
)
_ENDINGS = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest|v\d+(?::\d+)?|minimal|low|medium|high|xhigh)$", re.ASCII)
_FAST = "-fast"
_LONGEST = 200
_MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True):
    """The price of a million tokens, in millionths of a US dollar."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_hour: int

    def cost(self, counts: "Usage | UsageSum") -> int:
        """The cost of these tokens in millionths of a US dollar, rounded half up."""
        hour = min(counts.cache_write_hour, counts.cache_write)
        # `output` includes reasoning tokens; `input` does not include cached tokens.
        total = (
            counts.input * self.input
            + counts.output * self.output
            + counts.cache_read * self.cache_read
            + (counts.cache_write - hour) * self.cache_write
            + hour * self.cache_write_hour
        )
        return (total + _MILLION // 2) // _MILLION


class Prices(msgspec.Struct, frozen=True):
    """The price of each model, and the date of the shipped prices."""

    date: str
    models: dict[str, Price]

    def price(self, model: str) -> Price | None:
        """The price of a model's tokens; None when the table has none."""
        for id in _spellings(model):
            if id in self.models:
                return self.models[id]
        return None

    def cost(self, model: str, usage: Usage) -> int | None:
        """The cost of these tokens in millionths of a US dollar; None when the model has no price."""
        price = self.price(f"{model}{_FAST}" if usage.fast else model)
        return None if price is None else price.cost(usage)


def load(overrides: Path | None) -> Prices:
    """The shipped prices; prices in the user's own file override them."""
    shipped = _shipped()
    if overrides is None:
        return shipped
    try:
        own = _read(overrides.read_bytes(), str(overrides))
    except OSError as error:
        raise InvalidInput(f"the prices in {plain(str(overrides))} cannot be read: {error.strerror}") from None
    return Prices(shipped.date, shipped.models | own.models)


@cache
def _shipped() -> Prices:
    # importlib.resources would load zipfile and tempfile for this.
    return _read(Path(__file__).with_name("prices.json").read_bytes(), "prices.json")


# The form of the file -------------------------------------------------------------------------------------------------


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    models: dict[str, Raw]
    date: str = ""


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """US dollars for a million tokens. The default of a cache price is the input price; of an hour, the write price."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_hour: Decimal | None = None


def _read(text: bytes, name: str) -> Prices:
    try:
        table = msgspec.json.decode(text, type=_Table)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unfit(name, "", str(error)) from None
    return Prices(table.date, {model: _price(row, name, model) for model, row in table.models.items()})


def _price(row: Raw, name: str, model: str) -> Price:
    try:
        prices = msgspec.json.decode(row, type=_Row)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unfit(name, model, str(error)) from None
    write = prices.input if prices.cache_write is None else prices.cache_write
    values = {
        "input": prices.input,
        "output": prices.output,
        "cache_read": prices.input if prices.cache_read is None else prices.cache_read,
        "cache_write": write,
        "cache_write_hour": write if prices.cache_write_hour is None else prices.cache_write_hour,
    }
    for field, value in values.items():
        if not value.is_finite() or not 0 <= value <= _MILLION or value * _MILLION % 1:
            raise _unfit(name, model, f"{field} is {value}, not a price from 0 to {_MILLION} with at most six decimals")
    return Price(**{field: int(value * _MILLION) for field, value in values.items()})


def _unfit(name: str, model: str, why: str) -> InvalidInput:
    where = f" for '{plain(model)}'" if model else ""
    return InvalidInput(
        f"the prices in {plain(name)} cannot be used{where}: {plain(why)}; in US dollars for a million tokens, write: "
        '{"models": {"some-model": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}}}'
    )


# The ids of models ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _spellings(model: str) -> tuple[str, ...]:
    """The id itself, then ever shorter forms without the parts that never change the price."""
    return tuple(_shorter_and_shorter(model))


def _shorter_and_shorter(model: str) -> Iterator[str]:
    yield model
    id = model.strip().lower() if len(model) <= _LONGEST else ""
    while owner := _OWNERS.match(id):
        id = id[owner.end() :]
    fast = _FAST if id.startswith("claude-") and id.endswith(_FAST) else ""
    id = id.removesuffix(fast)
    yield id + fast
    while ending := _ENDINGS.search(id):
        id = id[: ending.start()]
        yield id + fast
    if id.startswith("claude-"):
        yield id.replace(".", "-") + fast  # Some programs write claude-sonnet-4.5.
