"""The command and environment that vLLM is started with."""

from pathlib import Path

import pytest

from serving.config import VLLM_LORA_RANKS, ServingConfig
from serving.machine import Machine
from serving.modules import LINEAR_TARGETS, lora_targets
from serving.vllm import build_launch, rank_limit
from turnout.errors import EngineError
from turnout.references import Base

CPU = Machine(gpus=(), cores=2, native_bfloat16=True, preloads=("/lib/libiomp5.so",))
OLD_CPU = Machine(gpus=(), cores=2, native_bfloat16=False, preloads=())
GPU = Machine(gpus=("NVIDIA H200",), cores=16, native_bfloat16=True, preloads=("/lib/libiomp5.so",))


def base(path: Path) -> Base:
    return Base("org/base", "base-nf4", str(path), "a" * 64, "b" * 64, "c" * 64, (0,))


def flag(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


def test_a_cpu_engine(tmp_path: Path) -> None:
    launch = build_launch(base(tmp_path), ServingConfig(kv_cache_gb=0.5), 9, CPU)
    command, environment = launch.command, launch.environment
    assert command[1:3] == ("-m", "serving.vllm_server")
    assert flag(command, "--served-model-name") == "base-nf4" and flag(command, "--model") == str(tmp_path)
    assert flag(command, "--max-lora-rank") == "16" and flag(command, "--max-loras") == "2"
    assert flag(command, "--host") == "127.0.0.1" and flag(command, "--dtype") == "bfloat16"
    assert flag(command, "--kv-cache-memory-bytes") == str(2**29)
    assert int(flag(command, "--shutdown-timeout")) > 0 and "--enforce-eager" in command and "--enable-lora" in command
    at = command.index("--lora-target-modules")
    assert command[at + 1 : at + 8] == LINEAR_TARGETS
    assert environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == environment["HF_HUB_OFFLINE"] == "1"
    assert environment["LD_PRELOAD"].startswith("/lib/libiomp5.so") and environment["OMP_NUM_THREADS"] == "2"


def test_a_cpu_without_bfloat16_or_libraries(tmp_path: Path) -> None:
    launch = build_launch(base(tmp_path), ServingConfig(), 8, OLD_CPU)
    assert flag(launch.command, "--dtype") == "float32" and "LD_PRELOAD" not in launch.environment


def test_a_gpu_engine(tmp_path: Path) -> None:
    config = ServingConfig(gpu_memory_utilization=0.5, tensor_parallel=2, max_num_seqs=64)
    launch = build_launch(base(tmp_path / "hub-id"), config, 8, GPU)
    assert launch.command[1:3] == ("-m", "vllm.entrypoints.openai.api_server")
    assert flag(launch.command, "--gpu-memory-utilization") == "0.5"
    assert flag(launch.command, "--tensor-parallel-size") == "2" and flag(launch.command, "--max-num-seqs") == "64"
    assert flag(launch.command, "--dtype") == "auto" and "--enforce-eager" not in launch.command
    assert not {"HF_HUB_OFFLINE", "LD_PRELOAD", "OMP_NUM_THREADS"} & set(launch.environment)


def test_cores_are_shared_out_between_ranks(tmp_path: Path) -> None:
    launch = build_launch(base(tmp_path), ServingConfig(tensor_parallel=2), 8, CPU)
    assert launch.environment["VLLM_CPU_OMP_THREADS_BIND"] == "0-0|1-1"


def test_a_command_of_ones_own(tmp_path: Path) -> None:
    config = ServingConfig(command=("docker", "run", "vllm"), env={"A": "1"}, extra_args=("--seed", "1"))
    launch = build_launch(base(tmp_path), config, 8, CPU)
    assert launch.command[:4] == ("docker", "run", "vllm", "--model") and launch.command[-2:] == ("--seed", "1")
    assert launch.environment["A"] == "1" and not {"LD_PRELOAD", "PYTHONPATH"} & set(launch.environment)


@pytest.mark.parametrize(("rank", "limit"), [(1, 1), (2, 8), (8, 8), (9, 16), (64, 64), (257, 320)])
def test_ranks_are_rounded_up(rank: int, limit: int) -> None:
    assert rank_limit(rank) == limit


def test_a_rank_beyond_every_engine_is_refused() -> None:
    with pytest.raises(EngineError, match=f"up to {VLLM_LORA_RANKS[-1]}"):
        rank_limit(VLLM_LORA_RANKS[-1] + 1)


def write_base(folder: Path, *modules: str) -> Base:
    import numpy as np
    from safetensors.numpy import save_file

    weights = {f"model.layers.0.{module}.weight": np.zeros((2, 2), np.float32) for module in modules}
    save_file(weights, folder / "model.safetensors")
    return base(folder)


def test_targets_are_those_that_the_base_has(tmp_path: Path) -> None:
    fused = write_base(tmp_path, "self_attn.qkv_proj", "self_attn.o_proj", "mlp.down_proj", "input_layernorm")
    assert lora_targets(fused) == ("o_proj", "down_proj")
    assert lora_targets(fused, ["model.layers.0.self_attn.qkv_proj"]) == ("o_proj", "down_proj", "qkv_proj")


def test_a_base_without_any_of_them_is_refused(tmp_path: Path) -> None:
    other = write_base(tmp_path, "attn.c_attn")
    with pytest.raises(EngineError, match=r"none of the modules q_proj, .*; it has c_attn"):
        lora_targets(other)
    assert lora_targets(other, ["c_attn"]) == ("c_attn",)
