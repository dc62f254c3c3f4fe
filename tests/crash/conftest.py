"""What the crash tests share."""

import os
import random
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that are the same in every run of a test; CLEW_SEED=n gives others."""
    seed = int(os.environ.get("CLEW_SEED", "1")) + zlib.crc32(request.node.name.encode())
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one, for thousands of files that are written and thrown away."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
