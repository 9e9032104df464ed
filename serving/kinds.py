"""What differs between the kinds of engine: how one is started, what moves its figures, and its limits."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from serving import vllm
from serving.config import ServingConfig
from serving.llama_cpp import launch as llama_cpp
from serving.machine import Machine
from serving.modules import lora_targets, module_names
from serving.vllm import Launch
from turnout.references import Base

ANY_RANK = 2**31 - 1
"""The limit of an engine that takes adapters of every rank."""
_VLLM_CONCURRENT = 128
"""How many requests vLLM runs at once on a CPU where `serving.max_num_seqs` says nothing; GPUs run more."""


@dataclass(frozen=True)
class Kind:
    """One kind of engine.

    `rank_limit` is the highest rank that an engine takes which is started for adapters of some rank, `targets` are the
    modules that its adapters may change, `replicas` and `concurrent` how many engines a pool has, and how many requests
    each runs at once.
    """

    build_launch: Callable[[Base, ServingConfig, int, Machine, Iterable[str]], Launch]
    computes_on: Callable[[ServingConfig, Machine], str]
    rank_limit: Callable[[int], int]
    targets: Callable[[Base, Iterable[str]], tuple[str, ...]]
    replicas: Callable[[ServingConfig], int]
    concurrent: Callable[[ServingConfig], int]


def kind_of(name: str) -> Kind:
    return _KINDS[name]


def _every_module(base: Base, wanted: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*lora_targets(base, wanted), *module_names(Path(base.path))}))


_KINDS = {
    "vllm": Kind(
        vllm.build_launch,
        vllm.computes_on,
        vllm.rank_limit,
        lora_targets,
        replicas=lambda config: config.replicas,
        concurrent=lambda config: config.max_num_seqs or _VLLM_CONCURRENT,
    ),
    "llama_cpp": Kind(
        llama_cpp.build_launch,
        llama_cpp.computes_on,
        lambda _: ANY_RANK,
        _every_module,
        replicas=lambda config: config.llama_cpp.replicas,
        concurrent=lambda config: config.llama_cpp.parallel,
    ),
}
