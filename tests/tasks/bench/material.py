"""Results to file and compare: figures in the shape that benches give them."""

from typing import Any

from tasks.bench.result import Result, Subject

SUBJECT = Subject(
    model="SmolLM2-135M-Instruct-nf4",
    base_sha256="ab" * 32,
    versions={"turnout": "0.1.0", "vllm": "0.32.0"},
    hardware={"cpu": "a CPU", "cores": 2, "ram_gib": 24, "gpus": []},
    date="2026-12-01T12:00:00+00:00",
)


def load_row(configuration: str, users: int, rate: float, p99_ms: float) -> dict[str, Any]:
    figures = {"requests_per_s": rate, "tokens_per_s": 32 * rate, "p50_ms": p99_ms / 2, "p95_ms": p99_ms * 0.9}
    return {"configuration": configuration, "users": users, **figures, "p99_ms": p99_ms, "failed_percent": 0.0}


def batching_result(subject: Subject = SUBJECT, faster: float = 1.0, **settings: Any) -> Result:
    """A result of `bench batching`, `faster` times as many requests a second."""
    rows = [
        load_row("continuous", 1, 1.0 * faster, 1000.0),
        load_row("continuous", 50, 9.9 * faster, 5050.0),
        load_row("one at a time", 1, 1.0 * faster, 1000.0),
        load_row("one at a time", 50, 0.9 * faster, 55000.0),
    ]
    return Result("batching", subject, {"users": [1, 50], "input_tokens": 32, **settings}, rows, ["A note | a line."])
