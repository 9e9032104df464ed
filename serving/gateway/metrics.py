"""The gateway's Prometheus metrics. Several workers share a folder, and each shows the sum of all."""

import os
from collections.abc import Iterable
from pathlib import Path

import psutil
from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder; it counts only where it is set before prometheus_client is first imported."""

disable_created_metrics()

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600)
_FIRST_TOKEN = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

REQUESTS = Counter("turnout_requests", "Answers, by status code.", ("name", "version", "code"))
ERRORS = Counter("turnout_errors", "Requests that failed, by what failed.", ("name", "version", "kind"))
SECONDS = Histogram("turnout_request_seconds", "From request to last byte.", ("name", "version"), buckets=_SECONDS)
FIRST_TOKEN = Histogram(
    "turnout_time_to_first_token_seconds",
    "From request to the first bytes of a stream.",
    ("name", "version"),
    buckets=_FIRST_TOKEN,
)
PROMPT_TOKENS = Counter("turnout_prompt_tokens", "Tokens in, by client key.", ("key", "name", "version"))
COMPLETION_TOKENS = Counter("turnout_completion_tokens", "Tokens out, by client key.", ("key", "name", "version"))
IN_FLIGHT = Gauge(
    "turnout_in_flight", "Requests on an engine now.", ("version", "replica"), multiprocess_mode="livesum"
)
WEIGHT = Gauge(
    "turnout_route_weight", "Percent of a name's requests.", ("name", "version"), multiprocess_mode="livemax"
)
GENERATION = Gauge("turnout_routes_generation", "Generation of the routes.", multiprocess_mode="livemin")
SHADOWS = Counter("turnout_shadow_requests", "Copies for shadow versions.", ("name", "version", "outcome"))
REPLICA_UP = Gauge("turnout_replica_up", "Whether an engine takes traffic.", ("replica",), multiprocess_mode="livemin")


class Meter:
    """The metrics of one version under one name; looking children up by their labels is too slow for every request."""

    def __init__(self, name: str, version: str) -> None:
        self._labels = (name, version)
        self.seconds = SECONDS.labels(name, version)
        self.first_token = FIRST_TOKEN.labels(name, version)
        self._codes: dict[int, Counter] = {}
        self._tokens: dict[str, tuple[Counter, Counter]] = {}

    def count(self, code: int) -> None:
        counter = self._codes.get(code)
        if counter is None:
            counter = self._codes[code] = REQUESTS.labels(*self._labels, code)
        counter.inc()

    def count_error(self, kind: str) -> None:
        ERRORS.labels(*self._labels, kind).inc()

    def count_shadow(self, outcome: str) -> None:
        SHADOWS.labels(*self._labels, outcome).inc()

    def count_tokens(self, key: str, prompt: int, completion: int) -> None:
        counters = self._tokens.get(key)
        if counters is None:
            labels = (key, *self._labels)
            counters = self._tokens[key] = (PROMPT_TOKENS.labels(*labels), COMPLETION_TOKENS.labels(*labels))
        counters[0].inc(prompt)
        counters[1].inc(completion)


class Meters:
    """One `Meter` a name and version, kept while the worker lives."""

    def __init__(self) -> None:
        self._meters: dict[tuple[str, str], Meter] = {}

    def of(self, name: str, version: str) -> Meter:
        meter = self._meters.get((name, version))
        if meter is None:
            meter = self._meters[name, version] = Meter(name, version)
        return meter


class WeightGauge:
    """Shows the present weights; those that are routed no more fall to 0, as shared files forget no labels."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, str]] = set()

    def show(self, weights: Iterable[tuple[str, str, float]]) -> None:
        now = {(name, version): percent for name, version, percent in weights}
        for labels in self._shown - now.keys():
            WEIGHT.labels(*labels).set(0)
        for labels, percent in now.items():
            WEIGHT.labels(*labels).set(percent)
        self._shown |= now.keys()


def render(reconciler: Path | None = None) -> bytes:
    """All metrics, of all workers that share the folder, in Prometheus' text format.

    Args:
        reconciler: the file in which the reconciler keeps its own. They are told as they are there; what a dead one
            has left has an old `turnout_reconciler_last_pass_timestamp_seconds`.
    """
    return _own() + _others(reconciler)


def _own() -> bytes:
    folder = os.environ.get(SHARED_FOLDER)
    if not folder:
        return generate_latest(REGISTRY)
    _forget_dead(Path(folder))
    registry = CollectorRegistry()
    MultiProcessCollector(registry, folder)
    return generate_latest(registry)


def _others(file: Path | None) -> bytes:
    try:
        return file.read_bytes() if file else b""
    except OSError:
        return b""  # there is no reconciler


def _forget_dead(folder: Path) -> None:
    """Gauges of workers that are gone say nothing of the present; their counters count on."""
    for file in folder.glob("gauge_live*_*.db"):
        if not psutil.pid_exists(int(file.stem.rpartition("_")[2])):
            file.unlink(missing_ok=True)
