"""Metrics of the service in Prometheus' format."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
REQUEST_LABELS = ("route", "method", "status")
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters, gauges and histograms of one service; gauges are evaluated when read."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        ProcessCollector(registry=registry)  # memory, time, open files
        self.requests = Counter(
            "slimdex_requests", "Requests that were answered.", REQUEST_LABELS, registry=registry
        )
        self.changes = Counter(
            "slimdex_changes", "Changes of an index that were made.", ["index"], registry=registry
        )
        about = "From a request to the end of its answer."
        self.seconds = Histogram(
            "slimdex_request_seconds", about, ["route"], buckets=SECONDS, registry=registry
        )
        about = "Queries that were encoded, or searched, together."
        self.batches = Histogram(
            "slimdex_batch_queries", about, ["index", "step"], buckets=SIZES, registry=registry
        )
        self.documents = Gauge(
            "slimdex_documents", "Documents of an index.", ["index"], registry=registry
        )
        self.bytes = Gauge(
            "slimdex_index_bytes", "Bytes of an index on disk.", ["index"], registry=registry
        )
        about = "Queries that wait, or are under way."
        self.waiting = Gauge("slimdex_waiting_queries", about, ["index"], registry=registry)

    def text(self) -> bytes:
        """Render for Prometheus."""
        return generate_latest(self._registry)
