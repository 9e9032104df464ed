"""Everything about one model as one answer: KV cache, weights, users of each GPU, advice, cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from serving.capacity.advice import advise
from serving.capacity.attention import KV_BYTES, Attention
from serving.capacity.cost import Api, Throughput, cost
from serving.capacity.fit import OVERHEAD_BYTES, Demand, fit, users, ways_to_fit
from serving.capacity.gguf import GGUF_TYPES
from serving.capacity.gpus import GIB, Gpu
from serving.capacity.shapes import Shapes
from serving.capacity.weights import PRECISIONS, lora_parameters, parameters, precision_name, weights_bytes
from turnout.errors import BadInput

MEAN_SHARE = 1 / 3
"""Of the context that a mean request uses where nothing is said: the PagedAttention paper saw 20 to 38 % used."""
MOST_TOKENS = 2**31
NOT_MEASURED = Throughput()
MOST_SEQUENCES = 256
"""Requests that vLLM runs at a time by default; 1,024 on GPUs of 70 GiB and more."""


@dataclass(frozen=True)
class Question:
    """What is asked about a model; None stands for what was not said."""

    context: int
    kv_dtype: str = "auto"
    precision: str = "bf16"
    utilization: float = 0.9
    parallel: int = 1
    users: int | None = None
    mean_tokens: int | None = None
    adapters: int = 0
    lora_rank: int = 16
    lora_targets: tuple[str, ...] = ("all-linear",)
    overhead_gib: float = OVERHEAD_BYTES / GIB
    hourly: float | None = None
    throughput: Throughput = NOT_MEASURED
    api: Api | None = None

    @property
    def mean(self) -> int:
        return max(1, round(self.context * MEAN_SHARE)) if self.mean_tokens is None else self.mean_tokens


def answer_question(
    model: str, attention: Attention, shapes: Shapes | None, gpus: Sequence[Gpu], question: Question
) -> dict[str, Any]:
    """The answer as JSON values.

    Args:
        shapes: the model's tensors; None where they are not known: then nothing is said about weights and GPUs.

    Raises:
        BadInput: a setting that is out of bounds, or that the model cannot be served with.
    """
    _check(question, attention)
    sizes = {name: weights_bytes(shapes, name) for name in (*PRECISIONS, *GGUF_TYPES)} if shapes else {}
    demand = _demand(attention, shapes, sizes, question)
    rows = [_row(gpu, demand, sizes, question.users or 1) for gpu in gpus] if sizes else []
    costs = cost(question.hourly, question.throughput, question.api)
    wanted = question.users
    request_bytes = attention.bytes_per_request(question.context, demand.value_bytes)
    return {
        "model": model,
        "architecture": attention.architecture,
        "parameters": parameters(shapes) if shapes else None,
        "context": question.context,
        "mean_tokens": question.mean,
        "kv_dtype": question.kv_dtype,
        "kv_bytes_per_token": _whole(attention.bytes_per_token(demand.value_bytes)),
        "kv_bytes_per_request": _whole(request_bytes),
        "kv_bytes_for_users": _whole(wanted * request_bytes) if wanted else None,
        "users": wanted,
        "precision": precision_name(question.precision),
        "weights_bytes": sizes or None,
        "lora_bytes": demand.lora_bytes,
        "tensor_parallel": question.parallel,
        "gpu": rows[0]["gpu"] if rows else None,
        "max_concurrent": rows[0]["max_concurrent"] if rows else None,
        "gpus": rows,
        "cost_per_1k_requests": costs["per_1k_requests"],
        "cost_per_million_tokens": costs["per_million_tokens"],
        "cost": costs,
        "notes": [*attention.notes, *_notes(question, attention, rows)],
    }


def _demand(attention: Attention, shapes: Shapes | None, sizes: dict[str, int], question: Question) -> Demand:
    lora = 0
    if shapes and question.adapters:
        lora = 2 * question.adapters * lora_parameters(shapes, question.lora_rank, question.lora_targets)
    return Demand(
        attention=attention,
        value_bytes=_value_bytes(question.kv_dtype, attention),
        weights_bytes=sizes.get(precision_name(question.precision), 0),
        lora_bytes=lora,
        context=question.context,
        mean_tokens=question.mean,
        parallel=question.parallel,
        utilization=question.utilization,
        overhead_bytes=round(question.overhead_gib * GIB),
    )


def _row(gpu: Gpu, demand: Demand, sizes: dict[str, int], wanted: int) -> dict[str, Any]:
    row = fit(gpu, demand)
    row["advice"] = advise(
        gpu.generation,
        lambda precision: users(gpu, replace(demand, weights_bytes=sizes[precision]), demand.context),
        wanted,
    )
    held = row["max_concurrent"]
    row["replicas_for_users"] = -(-wanted // held) if held else None
    row["enough"] = row["max_concurrent"] >= wanted
    row["ways_to_fit"] = [] if row["enough"] else ways_to_fit(gpu, demand, sizes, wanted)
    return row


def _check(question: Question, attention: Attention) -> None:
    for option, tokens in (("--context", question.context), ("--mean-tokens", question.mean)):
        if not 0 < tokens <= MOST_TOKENS:
            raise BadInput(f"{option} {tokens} is not between 1 and {MOST_TOKENS:,}", "Give tokens, such as 4096.")
    if question.mean > question.context:
        raise BadInput(
            f"--mean-tokens {question.mean:,} is above --context {question.context:,}",
            "Lower it, or raise the context.",
        )
    if not 0 < question.utilization <= 1:
        raise BadInput(f"--gpu-memory-utilization {question.utilization} is not above 0 and at most 1", "Use 0.9.")
    for name, value in (("--overhead-gib", question.overhead_gib), ("--hourly", question.hourly or 0.0)):
        if not 0 <= value < math.inf:
            raise BadInput(f"{name} {value} is not a number of at least 0", "Correct it.")
    attention.check_parallel(question.parallel)


def _value_bytes(kv_dtype: str, attention: Attention) -> float:
    """Bytes of a value in the cache; `auto` is the model's type, of which engines make float32 16 bits."""
    if kv_dtype == "auto":
        return 2.0
    if kv_dtype not in KV_BYTES:
        raise BadInput(f"--kv-dtype {kv_dtype!r:.60} is not known", f"Use auto, {', '.join(KV_BYTES)}.")
    return KV_BYTES[kv_dtype]


def _notes(question: Question, attention: Attention, rows: list[dict[str, Any]]) -> list[str]:
    notes = []
    if any(row["paged"]["users"] > MOST_SEQUENCES for row in rows):
        notes.append(
            f"vLLM runs {MOST_SEQUENCES} requests at a time (1,024 from 70 GiB on) unless --max-num-seqs is set."
        )
    if attention.context and question.context > attention.context:
        notes.append(
            f"--context {question.context:,} is above the {attention.context:,} positions of the model: an engine "
            "refuses it unless the positions are stretched (rope scaling)."
        )
    if attention.quantisation:
        see = f": see --precision {attention.quantisation}" if attention.quantisation in PRECISIONS else ""
        notes.append(f"The model is published quantised ({attention.quantisation}){see}.")
    if question.mean_tokens is None:
        notes.append(
            f"A mean request is taken for a third of the context, {question.mean:,} tokens: see --mean-tokens."
        )
    notes += _cost_notes(question)
    kv_heads = max((layer.heads for layer in attention.layers), default=1)
    if question.parallel > kv_heads:
        notes.append(f"{question.parallel} GPUs share {kv_heads} KV heads: each keeps a copy of one.")
    return notes


def _cost_notes(question: Question) -> list[str]:
    throughput = question.throughput
    known = throughput.requests_per_hour is not None or throughput.tokens_per_second is not None
    if question.hourly is not None and not known:
        return ["No cost without a measured throughput: see --bench, --requests-per-hour and --throughput."]
    if question.hourly is None and known:
        return ["No cost without the price of the hardware: see --hourly."]
    return []


def _whole(value: float) -> int:
    return round(value)
