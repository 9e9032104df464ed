"""What each arm of a name did since the release event that made it: what a canary is judged by."""

from bisect import bisect_left
from typing import Any

from serving.routes import NameRoutes

_FIRST_S, _LAST_S, _FACTOR = 0.01, 600.0, 1.25


def _bounds() -> tuple[float, ...]:
    bounds = [_FIRST_S]
    while bounds[-1] < _LAST_S:
        bounds.append(bounds[-1] * _FACTOR)
    return tuple(bounds)


BOUNDS_S = _bounds()
"""Upper bounds of the latency buckets, in seconds; a last bucket holds what took longer."""


class ArmCounts:
    """Requests to one arm: `errors` are the engine's 5xx, broken answers, and requests that found no engine."""

    __slots__ = ("errors", "requests", "seconds", "seconds_sum")

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.seconds = [0] * (len(BOUNDS_S) + 1)
        self.seconds_sum = 0.0

    def add(self, seconds: float, failed: bool) -> None:
        """Count one whole answer that took `seconds`."""
        self.requests += 1
        self.errors += failed
        self.seconds[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds_sum += seconds

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "errors": self.errors,
            "seconds": self.seconds,
            "seconds_sum": self.seconds_sum,
        }


class Figures:
    """The counts of every name's arms; a name's begin anew with each of its events."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[int, dict[int, ArmCounts]]] = {}

    def follow(self, names: dict[str, NameRoutes]) -> None:
        """Keep what was counted under the events of these routes. Requests that began before count no more."""
        kept = {}
        for name, routes in names.items():
            event, arms = self._names.get(name, (None, {}))
            kept[name] = (routes.event, arms if event == routes.event else {})
        self._names = kept

    def counts(self, name: str, version: int) -> ArmCounts:
        return self._names[name][1].setdefault(version, ArmCounts())

    def as_json(self) -> dict[str, Any]:
        return {
            name: {"event": event, "arms": {str(number): arm.as_json() for number, arm in arms.items()}}
            for name, (event, arms) in self._names.items()
        }
