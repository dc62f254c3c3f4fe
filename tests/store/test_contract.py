"""The contract in front of the log: how narrow it is, and that nobody goes round it."""

import re
from pathlib import Path

import clew
from clew.store import Store
from clew.store.log.contract import EventLog

MOST_METHODS = 14
# Code outside the store that mentions the database of a store, or a statement of it, by name.
AROUND = re.compile(r"store\.database\b|unrestricted\.database\b|store\.places\b")


def test_the_contract_is_narrow() -> None:
    methods = [name for name in vars(EventLog) if not name.startswith("_")]
    assert len(methods) <= MOST_METHODS
    assert all(vars(EventLog)[name].__doc__ for name in methods)
    assert [name for name in methods if name not in vars(Store)] == []


def test_nobody_goes_round_the_contract() -> None:
    source = Path(clew.__file__).parent
    outside = [path for path in source.rglob("*.py") if path.relative_to(source).parts[0] != "store"]
    assert len(outside) > 150
    assert [str(path) for path in outside if AROUND.search(path.read_text("utf-8"))] == []
