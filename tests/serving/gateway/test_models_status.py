"""/models/status: what every engine is, has and does."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from serving.config import ServingConfig
from serving.engine_metrics import kv_cache
from serving.gateway.engine_facts import architecture, gpu_memory
from serving.keys import add_key, remove_key
from serving.processes import create_time
from serving.records import Engine, remove_record, write_record
from tests.serving.gateway.conftest import BASE, HTTP, SERVED, Site, wait_until
from tests.serving.gateway.test_generating import BOTH

METRICS = """vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="1024",sliding_window="None"} 1.0
"""


def status(site: Site, **headers: str) -> dict[str, Any]:
    time.sleep(1.05)  # a look is kept for a second
    answer = HTTP.get(f"{site.url}/models/status", headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_engines_and_kinds(site: Site) -> None:
    site.push(site.routes(kinds=BOTH, concurrent=8))
    site.engines[0].behave(metrics=METRICS)
    us = Engine("one", "vllm", "", BASE, ServingConfig(), 8, (), "", (), "", os.getpid(), create_time(os.getpid()) or 0)
    write_record(site.home, us)
    try:
        told = status(site)
    finally:
        remove_record(site.home, "one")
    assert time.time() - told["timestamp"] < 10
    one, two = told["engines"]
    assert (one["id"], one["kind"], one["available"], one["base"]) == ("one", "vllm", True, BASE.name)
    assert "url" not in json.dumps(told)
    assert one["versions"] == sorted(SERVED)
    assert one["load"] == {"running": 3, "waiting": 1, "concurrent": 8, "share": 0.5, "counted_by": "engine"}
    assert one["kv_cache"] == {"blocks": 1024, "block_size": 16, "tokens": 16384, "use": 0.25}
    assert one["memory_bytes"] > 10**6
    assert two["load"]["counted_by"] == "gateway"
    assert (two["memory_bytes"], two["kv_cache"]) == (None, None)
    vllm, llama = (told["backends"][kind] for kind in BOTH)
    assert (vllm["available"], vllm["load"], vllm["engines"]) == (True, 0.5, ["one"])
    assert (llama["available"], llama["load"], llama["engines"]) == (True, 0, ["two"])


def test_kinds_that_are_not_there(site: Site) -> None:
    assert status(site)["backends"]["llama_cpp"] == {"available": False}
    site.push(site.routes(kinds=BOTH))
    site.engines[1].kill()
    try:
        told = status(site)
    finally:
        site.engines[1].start(*SERVED)
    assert told["backends"]["llama_cpp"] == {"available": False}
    assert [engine["available"] for engine in told["engines"]] == [True, False]


def test_names_of_others_are_hidden(site: Site) -> None:
    text = add_key(site.home, "watchers", ["support"])
    try:
        wait_until(lambda: HTTP.get(f"{site.url}/models/status").status_code == 401, "the key counts")
        told = status(site, Authorization=f"Bearer {text}")
        assert {name for engine in told["engines"] for name in engine["versions"]} == {"support-v1"}
        assert "incidents" not in json.dumps(told)
    finally:
        remove_key(site.home, "watchers")
        wait_until(lambda: site.ask().status_code == 200, "no key is needed")


def test_methods(site: Site) -> None:
    url = f"{site.url}/models/status"
    assert HTTP.head(url).status_code == 200
    assert HTTP.post(url).status_code == 405
    assert HTTP.options(url).headers["allow"] == "GET, HEAD, OPTIONS"
    assert "/models/status" in HTTP.get(f"{site.url}/nothing").json()["error"]["message"]


def test_blocks_of_several_engine_cores_add_up() -> None:
    second = METRICS.replace('engine="0"', 'engine="1"').replace("0.25", "0.75")
    assert kv_cache(METRICS + second) == {"blocks": 2048, "block_size": 16, "tokens": 32768, "use": 0.5}
    assert kv_cache("llamacpp:requests_processing 0\n") is None
    assert kv_cache('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0\n') is None


@pytest.mark.parametrize("nested", [False, True])
def test_sizes_of_a_model(tmp_path: Path, nested: bool) -> None:
    sizes = {"vocab_size": 49152, "max_position_embeddings": 8192, "hidden_size": 576, "num_hidden_layers": 30}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": sizes} if nested else sizes))
    assert architecture(str(tmp_path)) == {"vocabulary": 49152, "context": 8192, "embedding": 576, "layers": 30}
    assert architecture(str(tmp_path / "none")) == dict.fromkeys(("vocabulary", "context", "embedding", "layers"))


def test_memory_on_gpus_is_by_process() -> None:
    assert all(pid > 0 and used >= 0 for pid, used in gpu_memory().items())
