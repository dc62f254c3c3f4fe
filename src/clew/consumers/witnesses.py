"""The consumer that lets the witnesses of the log countersign each new checkpoint. A witness that is away is asked
again with growing pauses.
"""

import threading
import time
from functools import partial

import msgspec

from clew.model.errors import ClewError
from clew.service.audit.witnesses import WitnessState, all_witnesses, witness_states
from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.store import audit_tree

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
# Short, because a stop waits for it.
PATIENCE_SECONDS = 2.0


class Witnesses:
    name = "witnesses"
    rest_seconds = 1.0

    def __init__(self, context: Context) -> None:
        opens = context.open_server
        impatient = None if opens is None else partial(opens, patience=PATIENCE_SECONDS)
        self._context = msgspec.structs.replace(context, open_server=impatient)
        self._pause = FIRST_PAUSE
        self._retry_at = 0.0
        self._seen = 0

    def run(self, stopping: threading.Event) -> float | None:
        settings = all_witnesses(self._context.home)
        newest = audit_tree.newest(self._context.store) if settings else None
        if newest is None or newest.number == self._seen:
            return None
        if (seconds := self._retry_at - time.monotonic()) > 0:
            return seconds
        if any(state.behind for state in witness_states(self._context.store, settings)):
            states: list[WitnessState] = call(self._context, "audit_witness", {})
            problems = [state for state in states if state.problem]
            if problems:
                pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
                self._retry_at = time.monotonic() + pause
                raise ClewError(f"{problems[0].address}: {problems[0].problem}")
        self._seen, self._pause = newest.number, FIRST_PAUSE
        return None
