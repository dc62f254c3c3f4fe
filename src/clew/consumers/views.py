"""The consumer that keeps views fresh, so that a reader has little to fold. Each view's cursor is in its own tables."""

import threading

from clew.service.kernel.context import Context

# One step, after which a worker that stops may stop.
STEP = 2000


class FreshViews:
    name = "views"
    rest_seconds = 1.0

    def __init__(self, context: Context) -> None:
        self._views = context.views

    def run(self, stopping: threading.Event) -> float | None:
        while not stopping.is_set() and self._views.catch_up(limit=STEP).left:
            pass
        return None
