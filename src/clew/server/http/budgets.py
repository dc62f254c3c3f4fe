"""What one principal may use of a server at once, counted for all processes of the server.

A budget is per principal, so more keys give no more of it. Four things are counted: requests per second (a token
bucket), operations that run, streams that are open, and processor time. A principal that has used much
processor time lately works on one request at a time. The requests of one that has used much for long or abandoned
requests wait for those of others from their beginning (`right_of_way.py`).

The counts are in memory that the processes share: a file of the supervisor's, which a lock protects. A count belongs to
the number of its process, so a process that starts again forgets what the dead one had counted.
"""

import fcntl
import hashlib
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from clew.model.errors import TooManyRequests
from clew.server.http.right_of_way import SHORT_SECONDS
from clew.server.http.supervisor import BUDGETS_VARIABLE, MOST_PROCESSES
from clew.server.options import Options

# How many principals have counts at a time; an idle principal needs none.
SETS = 512
SLOTS = 16
_HEAD = struct.Struct("=Qddddd")
_COUNTS = struct.Struct(f"={MOST_PROCESSES}H")
SLOT_BYTES = _HEAD.size + 2 * _COUNTS.size
TABLE_BYTES = SETS * SLOTS * SLOT_BYTES
# Operations of one principal that run at the same time; a quarter of them is enough to share the work of a page.
MOST_RUNNING = 4
# The half-life of counted processor time.
HALF_LIFE_SECONDS = 2.0
# A principal that used more than a quarter of a processor lately works on one request at a time.
BUSY_SECONDS = 0.25 * HALF_LIFE_SECONDS / 0.693
# The requests of a principal that lately spent more than this on long and abandoned ones are long from their beginning.
MOST_EXCESS_SECONDS = 0.25


class Turn(Enum):
    """Whether an operation may begin now, and what kind of work it probably is."""

    NOT_YET = auto()
    SHORT = auto()
    LONG = auto()


class Budgets:
    """The counts of all principals."""

    def __init__(self, options: Options) -> None:
        worker = options.worker
        self._rate, self._burst, self._most_streams = options.rate, options.burst, options.streams
        self._worker = worker or 0
        self._lock = threading.Lock()
        path = os.environ.get(BUDGETS_VARIABLE, "") if worker is not None else ""
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC) if path else -1
        if path and os.fstat(self._file).st_size != TABLE_BYTES:
            os.ftruncate(self._file, TABLE_BYTES)
        self._table = mmap.mmap(self._file, TABLE_BYTES)
        if path:
            self._forget_own()

    @property
    def is_shared(self) -> bool:
        """Whether other processes change the counts, too."""
        return self._file >= 0

    def take_request(self, principal: str) -> None:
        """Count a request, or refuse it."""
        with self._slot(principal) as slot:
            left = min(self._burst, slot.tokens + (slot.now - slot.at) * self._rate) if slot.at else self._burst
            slot.at = slot.now
            slot.tokens = left - 1 if left >= 1 else left
        if left < 1:
            raise TooManyRequests(f"more than {self._rate:g} requests a second; slow down and try again")

    def begin_operation(self, principal: str) -> Turn:
        """Count an operation that begins, unless as many run already as may."""
        with self._slot(principal) as slot:
            most = 1 if slot.work > BUSY_SECONDS else MOST_RUNNING
            if sum(slot.running) >= most:
                return Turn.NOT_YET
            slot.running[self._worker] += 1
            return Turn.LONG if slot.excess > MOST_EXCESS_SECONDS else Turn.SHORT

    def end_operation(self, principal: str, seconds: float, *, is_abandoned: bool = False) -> None:
        """Count the processor time of an operation that has ended."""
        with self._slot(principal) as slot:
            slot.running[self._worker] = max(0, slot.running[self._worker] - 1)
            slot.work += seconds
            slot.excess += seconds if is_abandoned else max(0.0, seconds - SHORT_SECONDS)

    def begin_stream(self, principal: str) -> None:
        """Count a stream that is opened, or refuse it."""
        with self._slot(principal) as slot:
            if sum(slot.streams) >= self._most_streams:
                raise TooManyRequests(f"{principal} has {self._most_streams} open streams; close one first")
            slot.streams[self._worker] += 1

    def end_stream(self, principal: str) -> None:
        with self._slot(principal) as slot:
            slot.streams[self._worker] = max(0, slot.streams[self._worker] - 1)

    @contextmanager
    def _slot(self, principal: str) -> "Iterator[_Slot]":
        with self._locked():
            slot = self._find(principal)
            yield slot
            slot.write(self._table)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            if not self.is_shared:
                yield
                return
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _find(self, principal: str) -> "_Slot":
        """The slot of a principal: the one it has, or the slot in the same set that has been idle for longest."""
        name = int.from_bytes(hashlib.blake2b(principal.encode("utf-8", "replace"), digest_size=8).digest()) or 1
        start = name % SETS * SLOTS
        now = time.monotonic()
        idle: _Slot | None = None
        for number in range(start, start + SLOTS):
            offset = number * SLOT_BYTES
            [held] = struct.unpack_from("=Q", self._table, offset)
            if held == name:
                return _Slot(self._table, offset, now)
            slot = _Slot(self._table, offset, now)
            if not any(slot.running) and not any(slot.streams) and (idle is None or slot.at < idle.at):
                idle = slot
        if idle is None:
            raise TooManyRequests("too many callers at once; try again")
        idle.clear(name)
        return idle

    def _forget_own(self) -> None:
        with self._locked():
            for number in range(SETS * SLOTS):
                offset = number * SLOT_BYTES
                if struct.unpack_from("=Q", self._table, offset)[0]:
                    slot = _Slot(self._table, offset, 0.0)
                    slot.running[self._worker] = slot.streams[self._worker] = 0
                    slot.write(self._table)


class _Slot:
    """The counts of one principal."""

    __slots__ = ("_offset", "at", "excess", "name", "now", "running", "streams", "tokens", "work", "worked_at")

    def __init__(self, table: mmap.mmap, offset: int, now: float) -> None:
        self._offset = offset
        self.now = now
        self.name, self.tokens, self.at, self.work, self.excess, self.worked_at = _HEAD.unpack_from(table, offset)
        self.running = list(_COUNTS.unpack_from(table, offset + _HEAD.size))
        self.streams = list(_COUNTS.unpack_from(table, offset + _HEAD.size + _COUNTS.size))
        if now:
            left = 0.5 ** (max(0.0, now - self.worked_at) / HALF_LIFE_SECONDS)
            self.work *= left
            self.excess *= left
            self.worked_at = now

    def clear(self, name: int) -> None:
        self.name, self.tokens, self.at, self.work, self.excess = name, 0.0, 0.0, 0.0, 0.0

    def write(self, table: mmap.mmap) -> None:
        _HEAD.pack_into(table, self._offset, self.name, self.tokens, self.at, self.work, self.excess, self.worked_at)
        _COUNTS.pack_into(table, self._offset + _HEAD.size, *self.running)
        _COUNTS.pack_into(table, self._offset + _HEAD.size + _COUNTS.size, *self.streams)
