"""A load of requests, and the figures that vLLM's serving benchmark gives of it."""

from dataclasses import dataclass, replace
from typing import Any

PERCENTILES = (50, 95, 99)
_SATURATED = 0.8
"""Of a core: a client above it is likely to keep chunks waiting."""
_WARMUP_SEEDS = 10**6
"""Added to a load's seed: no load that counts has such a one."""


@dataclass(frozen=True)
class Load:
    """`users` clients, each sending its next request when the last one is answered, until `requests` are sent.

    Prompts are random tokens of a length of `input_tokens`, all different; answers have exactly `output_tokens`. Before
    them come `warmups` requests that do not count, with other prompts.
    """

    users: int
    requests: int
    input_tokens: int
    output_tokens: int
    warmups: int = 0
    seed: int = 0

    @property
    def warmup(self) -> "Load":
        """The requests that do not count, one at a time."""
        return replace(self, users=1, requests=self.warmups, warmups=0, seed=self.seed + _WARMUP_SEEDS)


@dataclass(frozen=True)
class Measured:
    """The figures of one load. Times in milliseconds; `client_cores`: the CPU that the load generator took."""

    completed: int
    failed: int
    seconds: float
    requests_per_s: float
    output_tokens_per_s: float
    ttft_ms: dict[int, float]
    itl_ms: dict[int, float]
    tpot_ms: dict[int, float]
    latency_ms: dict[int, float]
    client_cores: float
    errors: tuple[str, ...] = ()

    @property
    def failed_percent(self) -> float:
        return 100 * self.failed / max(1, self.completed + self.failed)

    def row(self) -> dict[str, Any]:
        """The usual columns of a table."""
        return {
            "requests_per_s": self.requests_per_s,
            "tokens_per_s": self.output_tokens_per_s,
            "p50_ms": self.latency_ms[50],
            "p95_ms": self.latency_ms[95],
            "p99_ms": self.latency_ms[99],
            "failed_percent": self.failed_percent,
        }

    def warnings(self, load: Load) -> list[str]:
        """What of the client's would spoil these figures."""
        found = []
        if self.client_cores > _SATURATED:
            found.append(
                f"At {load.users} users the load generator took {self.client_cores:.2f} of a core: requests queued in "
                "the client, and the engine's latencies are lower than these."
            )
        if load.requests < load.users:
            found.append(f"{load.users} users sent only {load.requests} requests: fewer were there at a time.")
        if self.failed:
            found.append(f"{self.failed} of {self.failed + self.completed} requests failed: {self.errors[0]:.200}")
        return found


def measured_of(result: dict[str, Any], client_cores: float) -> Measured:
    """The figures in the JSON value that vLLM's serving benchmark writes with `--save-detailed`."""
    errors = tuple(error for error in result.get("errors", ()) if error)
    completed = int(result["completed"])
    return Measured(
        completed=completed,
        failed=int(result.get("failed", result["num_prompts"] - completed)),
        seconds=result["duration"],
        requests_per_s=result["request_throughput"],
        output_tokens_per_s=result["output_throughput"],
        ttft_ms=_percentiles(result, "ttft"),
        itl_ms=_percentiles(result, "itl"),
        tpot_ms=_percentiles(result, "tpot"),
        latency_ms=_percentiles(result, "e2el"),
        client_cores=client_cores,
        errors=errors,
    )


def _percentiles(result: dict[str, Any], name: str) -> dict[int, float]:
    return {percent: float(result[f"p{percent}_{name}_ms"]) for percent in PERCENTILES}
