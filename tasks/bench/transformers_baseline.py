"""The transformers baseline: plain `generate`, without an engine, in a process of its own.

`python -m tasks.bench.transformers_baseline JOB.json` needs torch, transformers and, for an adapter, peft alone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.bench.footprint import resident_bytes
from tasks.children import main, quieten, say
from tasks.losses import generate_greedily
from turnout.references import from_json


@dataclass(frozen=True)
class BaselineRequests:
    """Prompts, in token ids, that arrive together.

    With `batched` they are generated as one batch, else one after the other, as they came.
    """

    prompts: tuple[tuple[int, ...], ...]
    batched: bool


@dataclass(frozen=True)
class BaselineJob:
    """The rounds of requests to answer with `max_tokens` tokens each; what is done now is told in `folder`."""

    base_path: str
    adapter_path: str | None
    rounds: tuple[BaselineRequests, ...]
    max_tokens: int
    folder: str


@dataclass(frozen=True)
class BaselineRound:
    """How a round went: when each request was answered, in seconds after all came, and the tokens generated."""

    latencies_s: tuple[float, ...]
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Baseline:
    """`memory_bytes` is what the process had when the model was loaded, `gpu_bytes` the most that it had on the GPU."""

    dtype: str
    device: str
    rounds: tuple[BaselineRound, ...]
    memory_bytes: int
    gpu_bytes: int | None


def run(raw: dict[str, Any]) -> Baseline:
    quieten()
    import torch

    from tasks.loading import with_adapters
    from tasks.quantise import compute_dtype, load_bf16

    job = from_json(BaselineJob, raw)
    folder = Path(job.folder)
    say(folder, "transformers: loading the model")
    model = load_bf16(job.base_path)
    if job.adapter_path:
        model = with_adapters(model, {"adapter": job.adapter_path})
    model.eval()
    loaded = resident_bytes()
    generate_batch(model, job.rounds[0].prompts[:1], job.max_tokens)
    rounds = []
    for requests in job.rounds:
        say(folder, f"transformers{', batched' if requests.batched else ''}: {len(requests.prompts)} requests")
        rounds.append(answer_round(model, requests, job.max_tokens))
    gpu = torch.cuda.is_available()
    return Baseline(
        dtype=str(compute_dtype()).removeprefix("torch."),
        device=str(torch.cuda.get_device_name(0)) if gpu else "cpu",
        rounds=tuple(rounds),
        memory_bytes=loaded,
        gpu_bytes=int(torch.cuda.max_memory_reserved()) if gpu else None,
    )


def answer_round(model: Any, requests: BaselineRequests, max_tokens: int) -> BaselineRound:
    """Answer `requests` with `max_tokens` tokens each."""
    began = time.perf_counter()
    latencies: list[float] = []
    tokens = 0
    for batch in [list(requests.prompts)] if requests.batched else [[prompt] for prompt in requests.prompts]:
        tokens += generate_batch(model, batch, max_tokens)
        latencies += [time.perf_counter() - began] * len(batch)
    return BaselineRound(tuple(latencies), tokens, time.perf_counter() - began)


def generate_batch(model: Any, prompts: Sequence[Sequence[int]], max_tokens: int) -> int:
    """Generate `max_tokens` tokens greedily after each prompt, padded on the left; returns their number."""
    answers = generate_greedily(model, prompts, pad=0, max_new_tokens=max_tokens, min_new_tokens=max_tokens)
    return int(answers.numel())  # the shape is known only when the GPU is done


if __name__ == "__main__":
    main(run)
