"""What is read from vLLM's serving benchmark, and what would spoil it."""

import json
from pathlib import Path
from typing import Any

from serving.capacity.cost import from_bench
from tasks.bench.loads import Load, measured_of

_LOAD = Load(users=50, requests=50, input_tokens=32, output_tokens=32)


def benchmark_json(**changes: Any) -> dict[str, Any]:
    """The fields of what vLLM 0.32's benchmark writes that are read."""
    names = [f"p{percent}_{metric}_ms" for metric in ("ttft", "itl", "tpot", "e2el") for percent in (50, 95, 99)]
    rates = {"request_throughput": 9.9, "output_throughput": 316.8}
    counts = {"num_prompts": 50, "completed": 50, "failed": 0, "duration": 5.05}
    return dict(zip(names, range(len(names)), strict=True)) | rates | counts | {"errors": [""] * 50} | changes


def test_figures_keep_their_names() -> None:
    measured = measured_of(benchmark_json(), client_cores=0.1)
    assert (measured.ttft_ms, measured.latency_ms) == ({50: 0, 95: 1, 99: 2}, {50: 9, 95: 10, 99: 11})
    assert measured.row()["requests_per_s"] == 9.9
    assert measured.warnings(_LOAD) == []


def test_failures_are_counted_where_the_benchmark_does_not_tell_them() -> None:
    older = benchmark_json(completed=40, errors=["", "connection refused"])
    del older["failed"]
    measured = measured_of(older, client_cores=0.1)
    assert measured.failed == 10 and measured.failed_percent == 20
    assert "10 of 50 requests failed: connection refused" in measured.warnings(_LOAD)[0]


def test_a_saturated_client_is_told() -> None:
    assert "requests queued in the client" in measured_of(benchmark_json(), client_cores=0.95).warnings(_LOAD)[0]


def test_fewer_requests_than_users_are_told() -> None:
    few = Load(users=50, requests=10, input_tokens=32, output_tokens=32)
    assert "50 users sent only 10 requests" in measured_of(benchmark_json(), client_cores=0.1).warnings(few)[0]


def test_capacity_reads_the_throughput_of_such_a_row(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    row = {"configuration": "base", **measured_of(benchmark_json(), client_cores=0.1).row()}
    file.write_text(json.dumps({"rows": [row]}))
    throughput = from_bench(file)
    assert (throughput.requests_per_hour, throughput.tokens_per_second) == (9.9 * 3600, 316.8)


def test_warm_ups_send_none_of_the_prompts_that_count() -> None:
    load = Load(users=50, requests=50, input_tokens=32, output_tokens=8, warmups=2, seed=50)
    assert (load.warmup.users, load.warmup.requests, load.warmup.warmups) == (1, 2, 0)
    assert load.warmup.seed != load.seed and load.warmup.input_tokens == 32
