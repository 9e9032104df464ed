"""Samples an engine while it works: its own gauges, and the CPU, memory and GPU that it takes."""

import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import psutil

from serving import nvidia
from serving.engine_metrics import kv_cache
from serving.machine import this_machine
from serving.processes import session_members
from serving.records import Engine

Sample = dict[str, float]
"""`seconds` since the start, and what was read; a gauge that the engine does not have is missing."""

_GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:kv_cache_usage_perc": "kv_use",
    "vllm:gpu_cache_usage_perc": "kv_use",  # vLLM's older name
    "vllm:prefix_cache_queries_total": "prefix_queries",
    "vllm:prefix_cache_hits_total": "prefix_hits",
    "llamacpp:requests_processing": "running",
    "llamacpp:requests_deferred": "waiting",
}


def read_gauges(url: str) -> Sample:
    """What the engine at `url` tells of itself at `/metrics`; empty where it does not answer in time."""
    return parse_gauges(_metrics(url))


def parse_gauges(text: str) -> Sample:
    """The known gauges and counters in Prometheus text, each summed over its labels."""
    from prometheus_client.parser import text_string_to_metric_families

    found: Sample = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if name := _GAUGES.get(sample.name):
                found[name] = found.get(name, 0.0) + sample.value
    return found


def cache_blocks(url: str) -> tuple[int, int]:
    """How many blocks the KV cache of the vLLM at `url` has, and how many tokens each holds; zeros if it is silent."""
    found = kv_cache(_metrics(url))
    return (found["blocks"], found["block_size"]) if found else (0, 0)


def _metrics(url: str) -> str:
    """The engine's own metrics as text, empty where it does not answer in time."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except (OSError, ValueError):
        return ""


@dataclass
class Sampler:
    """Samples `engine` every `every_s` seconds in a thread of its own, while the block runs."""

    engine: Engine
    every_s: float = 0.5
    gauges: bool = True
    samples: list[Sample] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._cpu = self._cpu_seconds()
        psutil.cpu_percent()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._seconds = time.monotonic() - self._began
        self._used = self._cpu_seconds() - self._cpu
        self._host = psutil.cpu_percent()
        self._stop.set()
        self._thread.join(timeout=30)

    def usage(self) -> dict[str, Any]:
        """Means over the block: the engine's share of all usable cores, the host's; GPU use and memory's peak."""
        row: dict[str, Any] = {
            "engine_cpu_percent": 100 * self._used / max(self._seconds, 1e-9) / this_machine().cores,
            "host_cpu_percent": self._host,
        }
        if use := [sample["gpu_percent"] for sample in self.samples if "gpu_percent" in sample]:
            row["gpu_percent"] = sum(use) / len(use)
            row["gpu_memory_bytes"] = max(
                sample["gpu_memory_bytes"] for sample in self.samples if "gpu_percent" in sample
            )
        return row

    def peak(self, name: str) -> float:
        return max((sample[name] for sample in self.samples if name in sample), default=0.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            read = read_gauges(self.engine.url) if self.gauges else {}
            self.samples.append({"seconds": began - self._began, **read, **gpu_use()})
            self._stop.wait(max(0.05, self.every_s - (time.monotonic() - began)))

    def _cpu_seconds(self) -> float:
        total = 0.0
        for process in session_members(self.engine.pid, self.engine.create_time):
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total


def gpu_use() -> Sample:
    """The mean use in percent, and the memory used, of this machine's NVIDIA GPUs; empty where there is none."""
    rows = nvidia.query("gpu", ["utilization.gpu", "memory.used"], limit_s=10) if this_machine().gpus else []
    read = [tuple(map(int, row)) for row in rows if all(value.isdecimal() for value in row)]
    if not read:
        return {}
    return {
        "gpu_percent": sum(use for use, _ in read) / len(read),
        "gpu_memory_bytes": float(sum(used for _, used in read) * 2**20),
    }
