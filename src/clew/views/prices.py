"""What tokens cost: the list prices of the models' own providers, shipped as data with the day they are from.

A model has one price, that of the day; what it cost earlier is not known here, nor are discounts, batches, priority,
a surcharge for where it runs, and dearer long prompts (above 200,000 tokens with some models: counts are summed over
many prompts, so none is seen to be long). An answer that was given fast (`Usage.fast`) is one of another model here,
whose id ends in `-fast`. A cost is therefore an estimate, and one that a program reported itself (`Usage.cost_micros`)
is the better one.

A model that is not in the table has no price: a wrong one would go unnoticed. `gpt-5-something` may cost ten times as
much as `gpt-5`, so a known id that another begins with says nothing. Only what surely leaves the price alone is taken
off an id: the name of its own provider, a date, `latest`, a revision, an effort. Somebody else who serves the model
(`azure/`, `us.anthropic.`) sets a price of his own, which a person can write into a file of the same form.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Raw

from clew.model.errors import InvalidInput
from clew.model.events import Usage
from clew.model.plain import plain

_OWNERS = re.compile(
    r"(?:anthropic|openai|google|gemini|models|x-?ai|qwen|alibaba|dashscope|moonshot(?:-?ai)?|kimi|deepseek"
    r"|mistral(?:ai)?)/|(?:global\.)?anthropic\."
)
_ENDINGS = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest|v\d+(?::\d+)?|minimal|low|medium|high|xhigh)$", re.ASCII)
_FAST = "-fast"
_LONGEST = 200
_MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True):
    """What a million tokens cost, in millionths of a US dollar."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_hour: int


class Prices(msgspec.Struct, frozen=True):
    """The price of every model that is known, and the day the shipped prices are from."""

    date: str
    models: dict[str, Price]

    def of(self, model: str) -> Price | None:
        """What the model's tokens cost; None when no price is known."""
        return next((self.models[id] for id in _spellings(model) if id in self.models), None)

    def cost(self, model: str, usage: Usage) -> int | None:
        """What this many tokens cost in millionths of a US dollar, rounded half up; None when no price is known."""
        price = self.of(f"{model}{_FAST}" if usage.fast else model)
        if price is None:
            return None
        hour = min(usage.cache_write_hour, usage.cache_write)
        # Reasoning is a part of the output, and caches are not a part of the input.
        total = (
            usage.input * price.input
            + usage.output * price.output
            + usage.cache_read * price.cache_read
            + (usage.cache_write - hour) * price.cache_write
            + hour * price.cache_write_hour
        )
        return (total + _MILLION // 2) // _MILLION


def load(overrides: Path | None) -> Prices:
    """The shipped prices, and those of a person's own file instead of them where it has any."""
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
    return _read((files("clew.views") / "prices.json").read_bytes(), "prices.json")


# The form of the file -------------------------------------------------------------------------------------------------


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    models: dict[str, Raw]
    date: str = ""


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """US dollars for a million tokens; without a price of its own a cache is as input, and an hour of it as a write."""

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
        told = msgspec.json.decode(row, type=_Row)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unfit(name, model, str(error)) from None
    write = told.input if told.cache_write is None else told.cache_write
    values = {
        "input": told.input,
        "output": told.output,
        "cache_read": told.input if told.cache_read is None else told.cache_read,
        "cache_write": write,
        "cache_write_hour": write if told.cache_write_hour is None else told.cache_write_hour,
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


def _spellings(model: str) -> Iterator[str]:
    """The id as it is, then with less and less that leaves the price alone."""
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
        yield id.replace(".", "-") + fast  # As others write it: claude-sonnet-4.5.
