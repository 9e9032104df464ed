"""The command and the environment that start the llama.cpp engine on a base."""

import sys
from collections.abc import Iterable
from functools import cache

from serving.config import ServingConfig
from serving.machine import Machine
from serving.processes import own_path
from serving.vllm import Launch
from turnout.digests import canonical_json
from turnout.references import Base, to_json

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONUNBUFFERED": "1"}


def build_launch(
    base: Base,
    config: ServingConfig,
    max_lora_rank: int,
    machine: Machine,
    targets: Iterable[str] = (),
) -> Launch:
    """How to start llama.cpp serving `base` on `config.port`, with adapters up to `max_lora_rank`.

    The engine converts the base itself when it starts, once for all homes of this user. `serving.command` and
    `serving.extra_args` are vLLM's alone.

    Args:
        targets: taken for the sake of vLLM's, which must know them: llama.cpp adapts whatever an adapter changes.
    """
    settings = config.llama_cpp
    if settings.threads is None:
        settings = settings.model_copy(update={"threads": machine.cores})
    command = (
        *(settings.command or (sys.executable, "-m", "serving.llama_cpp")),
        *("--base", canonical_json(to_json(base)), "--settings", settings.model_dump_json()),
        *("--host", config.host, "--port", str(config.port)),
        *("--max-model-len", str(config.max_model_len), "--max-lora-rank", str(max_lora_rank)),
        *("--max-loras", str(config.max_cpu_loras)),
    )
    return Launch(command, own_path() | OFFLINE | config.env)


def computes_on(config: ServingConfig, machine: Machine) -> str:
    """The device and the number format of the weights: what moves log-probabilities."""
    settings = config.llama_cpp
    on_gpu = bool(machine.gpus) and settings.gpu_layers != 0 and _built_for_gpus()
    device = machine.device if on_gpu else Machine((), machine.cores, machine.native_bfloat16, ()).device
    part = f" {settings.gpu_layers} layers" if on_gpu and settings.gpu_layers else ""
    return f"{device}{part} llama.cpp {settings.quantisation}"


@cache
def _built_for_gpus() -> bool:
    try:
        from xllamacpp import get_device_info, ggml_backend_dev_type
    except ImportError:
        return False  # an engine that is started without it says so

    return any(each["type"] != ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_CPU for each in get_device_info())
