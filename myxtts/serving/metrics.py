"""What a server counts, for Prometheus. Nothing in it says what was spoken."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6)


class Metrics:
    """The counters of one server."""

    def __init__(self, num_jobs: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "myxtts_requests", "Requests to speak, by protocol and outcome.",
            ["protocol", "outcome"], registry=registry,
        )  # fmt: skip
        self.audio = Counter("myxtts_audio_seconds", "Speech made, in seconds.", registry=registry)
        self.characters = Counter("myxtts_characters", "Characters spoken.", registry=registry)
        self.first_audio = Histogram(
            "myxtts_first_audio_seconds", "From a request to its first audio.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.duration = Histogram(
            "myxtts_request_seconds", "From a request to its last audio.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        waiting = Gauge("myxtts_queue", "Requests that speak or wait.", registry=registry)
        waiting.set_function(num_jobs)

    def render(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self._registry)
