"""A file that is being exported, a piece at a time: it is never in memory as a whole."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from clew.runtimes.fit import Fidelity


class Outgoing(msgspec.Struct, kw_only=True):
    """A file that is being exported. `masked` is complete when the last of the `pieces` was read."""

    name: str
    pieces: Iterator[bytes]
    path: str = ""
    masked: Counter[str]
    fidelity: Fidelity
