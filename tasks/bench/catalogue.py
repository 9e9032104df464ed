"""The benches by name, imported only when they run.

A bench is a module with `run(setting) -> Result`. It may also have `draw(result) -> Figure | None` (else its first
figures are drawn as bars), `figures(result) -> dict` (what `turnout bench all` prints of it; else its rows) and
`wanted(setting) -> list[Wanted]`, the vLLM engines that it will ask for, so that several can start at once.
"""

import importlib
from types import ModuleType

BENCHES = {
    "latency": ("latency", "Time to the first token, between tokens and for a whole answer, for one user"),
    "load": ("load", "Requests a second and their latency at several numbers of users"),
    "batching": ("batching", "Continuous batching against one request at a time"),
    "preemption": ("preemption", "What happens when the KV cache is too small for the requests"),
    "ladder": ("ladder", "Size, memory, speed and quality of each format of the weights"),
    "engines": ("engines_side_by_side", "transformers, vLLM and llama.cpp side by side"),
    "gateway": ("gateway", "The gateway's cost: the same load straight to the engine and through it"),
    "memory": ("memory", "The model's memory in each precision, as loaded"),
}
"""Name → (module, title), in the order in which `turnout bench all` runs them."""


def bench_module(name: str) -> ModuleType:
    return importlib.import_module(f"tasks.bench.{BENCHES[name][0]}")


def title(name: str) -> str:
    return BENCHES[name][1]
