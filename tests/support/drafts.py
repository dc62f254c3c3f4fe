"""Drafts made from their name alone, so that whoever reads a log can tell what each event must hold.

A writer numbers its drafts from 0; the name is the first word of the text. Every other batch has no sources, because
the store takes a shorter way with drafts that cannot be there already.
"""

import random
from collections.abc import Collection, Iterable

import msgspec

from clew.model.events import Draft, Event, MessageAdded

# How many characters a text has, and how often. The second kind may become a blob in a row, the last one in a file.
SIZES = (((20, 400), 85), ((4_000, 60_000), 10), ((140_000, 180_000), 5))


def name(writer: str, number: int) -> str:
    return f"{writer}-{number}"


def draft(name: str) -> Draft:
    """A message: mostly a line, sometimes a page, now and then a book. Its source is its name."""
    chance = random.Random(name)
    (least, most), *_ = chance.choices([sizes for sizes, _ in SIZES], weights=[weight for _, weight in SIZES])
    return message(name, chance.randint(least, most))


def message(name: str, size: int) -> Draft:
    """A message of this many characters, which do not compress to less than half. Its source is its name."""
    text = f"{name} {random.Random(name).randbytes(size // 2).hex()}"
    return Draft(body=MessageAdded(role="user", text=text), source=name)


def without_source(draft: Draft) -> Draft:
    return msgspec.structs.replace(draft, source=None)


def batch_size(first: int) -> int:
    """How many drafts are appended together, when this is the number of the first."""
    return 3 if first % 7 == 0 else 1


def has_sources(first: int) -> bool:
    """Whether the drafts of this batch have sources, so that they can be appended again."""
    return first % 2 == 0


def batch_names(writer: str, first: int) -> list[str]:
    return [name(writer, number) for number in range(first, first + batch_size(first))]


def batch(writer: str, first: int) -> list[Draft]:
    """The drafts that are appended together, when this is the number of the first."""
    drafts = [draft(each) for each in batch_names(writer, first)]
    return drafts if has_sources(first) else [without_source(each) for each in drafts]


def names(events: Iterable[Event]) -> list[str]:
    """The names of the drafts that these events were, in the order of the log."""
    return [event.body.text.partition(" ")[0] for event in events if isinstance(event.body, MessageAdded)]


def check_history(events: list[Event], *, acknowledged: Collection[str], under_way: Iterable[list[str]] = ()) -> None:
    """Check that nothing is lost, repeated, changed or out of order.

    Beyond what was acknowledged the log may hold batches that were under way when their writer died, each whole or not
    at all.
    """
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), "the seqs have a gap"
    stored = names(events)
    found = set(stored)
    lost = set(acknowledged) - found
    assert not lost, f"acknowledged and lost: {sorted(lost)[:20]}"
    assert len(stored) == len(found), f"stored twice: {sorted(each for each in found if stored.count(each) > 1)[:20]}"
    batches = [set(batch) for batch in under_way]
    for batch in batches:
        assert not batch & found or batch <= found, f"a batch was torn: of {batch} only {batch & found} are stored"
    unknown = found - set(acknowledged) - set().union(*batches)
    assert not unknown, f"stored, but never appended: {sorted(unknown)[:20]}"
    check_order(stored)
    for event in events:
        if isinstance(event.body, MessageAdded):
            assert event.body == draft(event.body.text.partition(" ")[0]).body, f"the text of event {event.seq} changed"


def check_order(stored: Iterable[str]) -> None:
    """Check that the drafts of each writer are in the order of their numbers."""
    last: dict[str, int] = {}
    for each in stored:
        writer, _, number = each.rpartition("-")
        assert int(number) > last.get(writer, -1), f"{each} comes after {name(writer, last[writer])}"
        last[writer] = int(number)
