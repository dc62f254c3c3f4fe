"""A plane and a person's home, for capturing."""

from pathlib import Path

import pytest

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.service import Context
from clew.store import Store

ME = "person:ada"


@pytest.fixture
def plane(store: Store) -> Plane:
    return Plane(
        Local(Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), machine="here"))
    )


@pytest.fixture
def person(tmp_path: Path) -> Path:
    """The home directory of the person whose agents are captured."""
    path = tmp_path / "person"
    path.mkdir()
    return path
