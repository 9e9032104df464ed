"""`turnout capacity` and `turnout capacity train` as commands."""

import re
from typing import Any

import pytest

from serving.engines import remembered
from serving.machine import this_machine
from serving.vllm import resolve_dtype
from tasks.training_memory import MEASURED
from tests.conftest import PipelineRun, Turnout
from tests.serving.capacity.models import CONFIGS


def test_a_folder_s_weights_are_counted_from_their_headers(turnout: Turnout) -> None:
    outcome = turnout("capacity", "--model", "bundled", "--context", "4096", "--gpu", "A40", "--users", "50", "--json")
    assert outcome.code == 0, outcome
    found = outcome.json
    assert found["parameters"] == 134_515_008 and found["weights_bytes"]["bf16"] == 269_030_016
    assert found["kv_bytes_per_token"] == 23040 and found["kv_bytes_per_request"] == 23040 * 4096
    assert found["max_concurrent"] == found["gpus"][0]["max_concurrent"] > 50
    assert found["cost_per_1k_requests"] is None


def test_a_config_alone_is_enough_and_people_get_tables(turnout: Turnout) -> None:
    model = ("capacity", "--model", str(CONFIGS / "qwen2.5-7b.json"), "--context", "32768", "--mean-tokens", "4000")
    cost = ("--hourly", "4.10", "--requests-per-hour", "23040")
    shown = turnout(*model, "--gpu", "A100", "--users", "50", *cost)
    assert shown.code == 0, shown
    for part in ("57,344 bytes a token", "A100-40GB", "A100-80GB", "50 users", "paged: ", "static: ", "0.178", "87.8%"):
        assert part in shown.out, part
    found = turnout(*model, *cost, "--adapters", "8", "--lora-targets", "q_proj,v_proj", "--gpu-memory", "24", "--json")
    assert found.json["cost_per_1k_requests"] == 0.178
    assert found.json["lora_bytes"] == 8 * 2 * 5_046_272
    assert found.json["gpus"][0]["memory_bytes"] == 24 * 2**30
    assert any("see --bench" in note for note in turnout(*model, "--hourly", "4.10", "--json").json["notes"])
    assert any("see --hourly" in note for note in turnout(*model, "--throughput", "9", "--json").json["notes"])
    fp8 = turnout(*model, "--kv-dtype", "fp8", "--gpu", "L4", "--json").json
    assert fp8["kv_bytes_per_token"] == 57344 // 2


def test_a_model_that_is_too_large_is_told_what_would_do(turnout: Turnout) -> None:
    shown = turnout("capacity", "--model", str(CONFIGS / "llama-3-8b.json"), "--context", "16384", "--gpu", "T4")
    assert shown.code == 0, shown
    assert "T4: holds 0" in shown.out and "--precision awq" in shown.out
    assert "is above the 8,192 positions of the model" in shown.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "--model is missing"),
        (("--model", "nowhere/config.json"), "there is no such file or folder"),
        (("--model", str(CONFIGS / "t5-small.json")), "no decoder-only language model"),
        (("--model", str(CONFIGS / "mamba-130m.json")), "MambaForCausalLM (mamba) cannot be computed"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--context", "-1"), "--context -1 is not between 1 and"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--mean-tokens", "0"), "--mean-tokens 0 is not between 1 and"),
        (("--model", str(CONFIGS / "gpt2.json"), "--gpu", "H9000"), "--gpu 'H9000' is not known"),
        (("--model", str(CONFIGS / "gpt2.json"), "--gpu-memory", "nan"), "--gpu-memory nan"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--gpu-memory-utilization", "1.1"), "1.1 is not above 0"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--gpu-memory-utilization", "nan"), "nan is not above 0"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--tensor-parallel", "3"), "does not divide the 28"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--hourly", "-2"), "--hourly -2"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--context", str(2**40)), "is not between 1 and"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--kv-dtype", "int1"), "'int1' is not known"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--precision", "q9"), "'q9' is not known"),
        (("--model", str(CONFIGS / "qwen2.5-7b.json"), "--bench", "none.json"), "--bench none.json cannot be read"),
    ],
)
def test_bad_input_ends_with_2_and_says_what(turnout: Turnout, args: tuple[str, ...], says: str) -> None:
    outcome = turnout("capacity", *args, "--json")
    assert outcome.code == 2, outcome
    assert says in outcome.json["error"]["message"]


def test_a_training_is_estimated_beside_measured_ones(turnout: Turnout) -> None:
    args = ("capacity", "train", "-c", "qwen2.5-7b", "--model", str(CONFIGS / "qwen2.5-7b.json"))
    outcome = turnout(*args, "--json")
    assert outcome.code == 0, outcome
    found: dict[str, Any] = outcome.json
    cpu, gpu = ({**row["bytes"]} for row in found["estimates"])
    for parts in (cpu, gpu):
        assert sum(value for name, value in parts.items() if name != "total") == pytest.approx(parts["total"], abs=10)
    # q and v at rank 16 in bf16: weights and gradients, and as much again for Adam's moments
    assert gpu["adapter"] == gpu["optimiser"] == 2 * 2 * 5_046_272
    assert "T4" in found["fits"] and "H200" in found["fits"]
    assert len(found["error"]["runs"]) == len(MEASURED)
    shown = turnout(*args, "--gpu", "A40", "--device", "gpu")
    assert shown.code == 0 and "Fits: A40" in shown.out and "measured GB" in shown.out, shown
    refused = turnout("capacity", "train", "--device", "tpu", "--json")
    assert refused.code == 2 and "neither cpu nor gpu" in refused.json["error"]["message"]


@pytest.mark.e2e
def test_the_running_engine_counts_its_kv_cache_alike(pipeline_run: PipelineRun) -> None:
    """vLLM logs how many tokens its cache holds, in whole blocks, of 128 tokens on a CPU."""
    command = pipeline_run.turnout
    settings = remembered(command.home)
    assert settings is not None
    if this_machine().gpus:
        pytest.skip("a GPU's cache is what is left of its memory")
    dtype = {"bfloat16": "bf16", "float32": "fp32"}[resolve_dtype(settings, this_machine())]
    found = command("capacity", "--model", "bundled", "--kv-dtype", dtype, "--json").json
    logs = "\n".join(file.read_text("utf-8", "replace") for file in command.home.logs.glob("engine-vllm-*.log"))
    tokens = [int(each.replace(",", "")) for each in re.findall(r"KV cache size: ([\d,]+) tokens", logs)]
    room = settings.kv_cache_gb * 2**30 / found["kv_bytes_per_token"]
    assert tokens and all(room - 128 < each <= room for each in tokens)
