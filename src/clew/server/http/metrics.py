"""Counts for Prometheus. Labels are methods, route templates and statuses: never an id, a name or a path as it was.

prometheus_client keeps the counts. A server of several processes keeps them in files that its processes share, so
whichever process is asked answers with the sum. A file belongs to the number of a worker and not to its process id: a
restarted worker continues the counts of the dead one, and the number of files stays the same.
"""

import os
from typing import NamedTuple

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from clew.server.http.supervisor import FOLDER_VARIABLE

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _Outcome(NamedTuple):
    """The counts of one method, route and status. Looking them up by their labels each time would cost more."""

    requests: Counter
    seconds: Histogram


class Metrics:
    """The counts of this process, and of the other workers of the same server."""

    def __init__(self, worker: int | None = None) -> None:
        """`worker` is the number of this process among several; without one, the counts are kept in memory."""
        # prometheus_client decides by a variable of the environment, which an operator may have set for something else.
        values.ValueClass = values.MutexValue if worker is None else values.MultiProcessValue(lambda: worker)
        prometheus_client.disable_created_metrics()
        self._is_shared = worker is not None
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "clew_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "clew_request_seconds", "How long answers took.", ["method", "route"], buckets=BUCKETS, registry=registry
        )
        self.listeners = Gauge(
            "clew_listeners", "Streams that are open.", registry=registry, multiprocess_mode="livesum"
        )
        self.streamed = Counter("clew_streamed_events", "Events sent over streams.", registry=registry)
        self.failures = Counter("clew_failures", "Requests that failed in clew itself.", registry=registry)
        self._outcomes: dict[tuple[str, str, int], _Outcome] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        outcome = self._outcomes.get((method, route, status))
        if outcome is None:
            outcome = self._outcomes[method, route, status] = _Outcome(
                self._requests.labels(method, route, status), self._seconds.labels(method, route)
            )
        outcome.requests.inc()
        outcome.seconds.observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus' own form."""
        registry = self._registry
        if self._is_shared:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, path=os.environ[FOLDER_VARIABLE])
        own = CollectorRegistry()
        prometheus_client.PlatformCollector(registry=own)
        if not self._is_shared:  # Memory and processor time of whichever process is asked would go up and down.
            prometheus_client.ProcessCollector(registry=own)
        return prometheus_client.generate_latest(registry) + prometheus_client.generate_latest(own)


def forget_worker(worker: int, folder: str) -> None:
    """Drop what counted for a worker only while it lived: its open streams."""
    mark_process_dead(worker, folder)
