"""Engines' gauges, as vLLM, older vLLM and llama.cpp name them."""

import pytest

from tasks.bench.sampling import parse_gauges

_VLLM = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 40.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0",model_name="m"} 28.0
vllm:num_preemptions_created{engine="0",model_name="m"} 1.7e+09
"""


def test_gauges_are_summed_over_labels_and_counters_found() -> None:
    assert parse_gauges(_VLLM) == {"running": 42.0, "preemptions": 28.0}


@pytest.mark.parametrize("name", ["kv_cache_usage_perc", "gpu_cache_usage_perc"])
def test_both_names_of_the_cache_use_are_known(name: str) -> None:
    assert parse_gauges(f'vllm:{name}{{engine="0"}} 0.25\n') == {"kv_use": 0.25}


def test_llama_cpp_calls_them_otherwise() -> None:
    text = "llamacpp:requests_processing 3\nllamacpp:requests_deferred 5\n"
    assert parse_gauges(text) == {"running": 3.0, "waiting": 5.0}
