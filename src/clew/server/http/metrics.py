"""Counts for Prometheus. Labels are methods, route templates and statuses: never an id, a name or a path as it was."""

import bisect
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counted in plain numbers, which costs a request next to nothing, and told when somebody asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, int], int] = {}
        self._times: dict[tuple[str, str], list[float]] = {}
        self.listeners = 0
        self.streamed = 0
        self.failures = 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            key = (method, route, status)
            self._requests[key] = self._requests.get(key, 0) + 1
            times = self._times.setdefault((method, route), [0.0] * (len(BUCKETS) + 2))
            times[bisect.bisect_left(BUCKETS, seconds)] += 1
            times[-1] += seconds

    def text(self) -> bytes:
        """Everything in Prometheus' own form."""
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        with self._lock:
            requests, times = dict(self._requests), {key: list(value) for key, value in self._times.items()}
        counted = CounterMetricFamily("clew_requests", "Requests answered.", labels=["method", "route", "status"])
        for (method, route, status), count in requests.items():
            counted.add_metric([method, route, str(status)], count)
        yield counted
        took = HistogramMetricFamily("clew_request_seconds", "How long answers took.", labels=["method", "route"])
        for (method, route), found in times.items():
            below = 0.0
            buckets = []
            for bound, value in zip([*map(str, BUCKETS), "+Inf"], found[:-1], strict=True):
                below += value
                buckets.append((bound, below))
            took.add_metric([method, route], buckets=buckets, sum_value=found[-1])
        yield took
        yield GaugeMetricFamily("clew_listeners", "Streams that are open.", value=self.listeners)
        yield CounterMetricFamily("clew_streamed_events", "Events sent over streams.", value=self.streamed)
        yield CounterMetricFamily("clew_failures", "Requests that failed in clew itself.", value=self.failures)
