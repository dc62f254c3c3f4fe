"""What most tests of the log start from."""

import pytest

from clew.model.session import Session
from clew.store import Store
from store.words import opened


@pytest.fixture
def session(store: Store) -> Session:
    """An open session with one event, its opening."""
    return opened(store)
