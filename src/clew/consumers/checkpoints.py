"""The consumer that signs a checkpoint when the log has grown. Its cursor is the last checkpoint.

Of several workers the first makes it for all: the others find nothing new.
"""

import threading
import time

from clew.model.errors import NotFound
from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.store.log.feed import end_position

EVERY_SECONDS = 60.0


class Checkpoints:
    name = "checkpoints"
    rest_seconds = 1.0

    def __init__(self, context: Context, *, every_seconds: float = EVERY_SECONDS) -> None:
        self._context = context
        self._every_seconds = every_seconds
        self._signed_upto = -1
        self._next = 0.0

    def run(self, stopping: threading.Event) -> float | None:
        position = end_position(self._context.store)
        if position == self._signed_upto:
            return None
        if (seconds := self._next - time.monotonic()) > 0:
            return seconds
        self._next = time.monotonic() + self._every_seconds
        try:
            call(self._context, "audit_checkpoint", {})
        except NotFound:
            return None  # Nothing has happened yet.
        self._signed_upto = position
        return None
