"""Metrics of the service in Prometheus' format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
Gauges = Callable[[], Iterable[tuple[str, float]]]
"""Yields (index, value) of each index."""


class Metrics:
    """Counters and histograms of one service; gauges are evaluated when read.

    Attributes
    ----------
    requests : by route, method and status.
    seconds : of a request, by route.
    batches : queries encoded or searched together, by index and step.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "slimdex_requests",
            "Requests that were answered.",
            ["route", "method", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "slimdex_request_seconds",
            "From a request to the end of its answer.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.batches = Histogram(
            "slimdex_batch_queries",
            "Queries that were encoded, or searched, together.",
            ["index", "step"],
            buckets=SIZES,
            registry=self._registry,
        )

    def add_gauge(self, name: str, help: str, values: Gauges) -> None:
        """Add a value of each index, evaluated when read."""
        self._registry.register(_Gauge(name, help, values))

    def text(self) -> bytes:
        """Render for Prometheus."""
        return generate_latest(self._registry)


class _Gauge(Collector):
    def __init__(self, name: str, help: str, values: Gauges) -> None:
        self._name, self._help, self._values = name, help, values

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._help, labels=["index"])
        for index, value in self._values():
            family.add_metric([index], value)
        yield family

    def describe(self) -> Iterable[Metric]:
        return []
