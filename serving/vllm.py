"""The command and the environment that start vLLM on a base."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from serving.config import VLLM_LORA_RANKS, ServingConfig
from serving.guard.prefix_cache import MIDDLEWARE
from serving.machine import Machine
from serving.modules import lora_targets
from serving.processes import own_path
from turnout.errors import EngineError
from turnout.references import Base

SHUTDOWN_S = 30
"""How long an engine that is told to stop finishes the requests that it has."""
KEEP_ALIVE_S = 60


@dataclass(frozen=True)
class Launch:
    """A command, and what to add to the environment for it."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def build_launch(
    base: Base,
    config: ServingConfig,
    max_lora_rank: int,
    machine: Machine,
    targets: Iterable[str] = (),
) -> Launch:
    """How to start vLLM serving `base` on `config.port`, with room for adapters up to `max_lora_rank`.

    Args:
        targets: modules that the adapters to come change, besides the usual ones.

    Raises:
        EngineError: no engine takes such a rank, or the base has no module to adapt.
    """
    device = _gpu_flags(config) if machine.gpus else _cpu_flags(config)
    command = (
        *(config.command or _program(machine)),
        *("--model", base.path, "--served-model-name", base.name),
        *("--host", config.host, "--port", str(config.port)),
        *("--dtype", resolve_dtype(config, machine), "--max-model-len", str(config.max_model_len)),
        *("--enable-lora", "--max-lora-rank", str(rank_limit(max_lora_rank))),
        *("--max-loras", str(config.max_loras), "--max-cpu-loras", str(config.max_cpu_loras)),
        # Without this limit `prompt_logprobs` beside any other request kills the engine (vllm#16668).
        *("--lora-target-modules", *lora_targets(base, targets)),
        *("--shutdown-timeout", str(SHUTDOWN_S), "--disable-uvicorn-access-log"),
        *(("--max-num-seqs", str(config.max_num_seqs)) if config.max_num_seqs else ()),
        # The memory guard's call; an engine by a command of one's own may not have this module.
        *(() if config.command else ("--middleware", MIDDLEWARE)),
        *device,
        *config.extra_args,
    )
    return Launch(command, _environment(base, config, machine) | config.env)


def rank_limit(rank: int) -> int:
    """The smallest `--max-lora-rank` that vLLM takes and that holds `rank`."""
    for limit in VLLM_LORA_RANKS:
        if rank <= limit:
            return limit
    raise EngineError(
        f"an adapter of rank {rank} cannot be served: vLLM takes ranks up to {VLLM_LORA_RANKS[-1]}",
        "Train with a lower train.lora_rank.",
    )


def resolve_dtype(config: ServingConfig, machine: Machine) -> str:
    if config.dtype != "auto" or machine.gpus:
        return config.dtype
    return "bfloat16" if machine.native_bfloat16 else "float32"


def computes_on(config: ServingConfig, machine: Machine) -> str:
    """The device, number format and number of parallel parts: what moves log-probabilities."""
    return f"{machine.device} {resolve_dtype(config, machine)} tp{config.tensor_parallel}"


def _environment(base: Base, config: ServingConfig, machine: Machine) -> dict[str, str]:
    environment = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    # By default an idle connection is closed after 5 s, now and then just when the gateway sends on it.
    environment["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"] = str(KEEP_ALIVE_S)
    if Path(base.path).is_dir():
        environment["HF_HUB_OFFLINE"] = "1"
    if not config.command:
        environment |= own_path()
    if not machine.gpus:
        environment |= _cpu_environment(config, machine)
    return environment


def _program(machine: Machine) -> tuple[str, ...]:
    module = "vllm.entrypoints.openai.api_server" if machine.gpus else "serving.vllm_server"
    return (sys.executable, "-m", module)


def _gpu_flags(config: ServingConfig) -> tuple[str, ...]:
    parallel = ("--tensor-parallel-size", str(config.tensor_parallel))
    return ("--gpu-memory-utilization", str(config.gpu_memory_utilization), *parallel)


def _cpu_flags(config: ServingConfig) -> tuple[str, ...]:
    kv_cache = ("--kv-cache-memory-bytes", str(int(config.kv_cache_gb * 2**30)))
    return ("--enforce-eager", *kv_cache, "--tensor-parallel-size", str(config.tensor_parallel))


def _cpu_environment(config: ServingConfig, machine: Machine) -> dict[str, str]:
    """Use every core, and one process fewer.

    By default vLLM runs a CPU engine's model in a process of its own, only to bind its OpenMP threads: that costs
    one more round of imports at every start. With `VLLM_ENABLE_V1_MULTIPROCESSING=0` the model runs in the engine's
    process, which gets its threads from the environment.
    """
    environment = {} if config.command else _libraries(machine)
    if config.tensor_parallel > 1:
        each = max(1, machine.cores // config.tensor_parallel)
        ranks = (f"{rank * each}-{rank * each + each - 1}" for rank in range(config.tensor_parallel))
        return environment | {"VLLM_CPU_OMP_THREADS_BIND": "|".join(ranks)}
    threads = {"OMP_NUM_THREADS": str(machine.cores), "KMP_BLOCKTIME": "5", "KMP_TPAUSE": "0"}
    return environment | threads | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


def _libraries(machine: Machine) -> dict[str, str]:
    """For an engine in this very environment: the libraries to preload."""
    if not machine.preloads:
        return {}
    inherited = [os.environ["LD_PRELOAD"]] if os.environ.get("LD_PRELOAD") else []
    return {"LD_PRELOAD": os.pathsep.join([*machine.preloads, *inherited])}
