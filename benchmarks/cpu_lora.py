"""LoRA on vLLM's CPU engine as `serving/vllm_lora.py` computes it, beside vLLM's own way, in turns in one run.

Starts an engine for each way and round on the bundled base with random adapters, and measures scoring (what a proof
does) and generation. It also asks the base in one batch with an adapter, and says how far its answer moves by that.

    python benchmarks/cpu_lora.py --rounds 2 --rows 64
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serving.client import EngineClient
from serving.config import ServingConfig
from serving.machine import this_machine
from serving.ports import free_port
from serving.vllm import build_launch
from tasks.bases import resolve_base
from turnout.errors import EngineError
from turnout.references import Base

WAYS = {"vllm": (sys.executable, "-m", "vllm.entrypoints.openai.api_server"), "turnout": ()}
SLOTS = 2
LENGTH = 100
USERS = 16
TOKENS = 48


@dataclass(frozen=True)
class Row:
    row_sha256: str
    input_ids: list[int]
    loss_mask: list[int]


def make_adapter(base: Base, folder: Path, seed: int) -> Path:
    """A rank-16 adapter on all linear layers, with weights that move the base's answers."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base.path)
    lora = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    for name, parameter in lora.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    lora.save_pretrained(str(folder))
    return folder


@contextmanager
def engine(base: Base, way: str) -> Iterator[str]:
    """The URL of an engine that computes LoRA in that way."""
    port = free_port("127.0.0.1")
    config = ServingConfig(
        port=port, max_model_len=1024, max_num_seqs=64, kv_cache_gb=1, max_loras=SLOTS, max_cpu_loras=SLOTS
    )
    launch = build_launch(base, config, 16, this_machine())
    command = [*WAYS[way], *launch.command[3:]] if WAYS[way] else list(launch.command)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env=os.environ | launch.environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            asyncio.run(ready(f"http://127.0.0.1:{port}"))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


async def ready(url: str, limit_s: float = 300) -> None:
    deadline = time.monotonic() + limit_s
    async with EngineClient(url) as client:
        while True:
            try:
                await client.models()
                return
            except EngineError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.5)


async def measure(url: str, base: Base, adapters: list[Path], rows: list[Row]) -> dict[str, float]:
    async with EngineClient(url) as client:
        for number, folder in enumerate(adapters, 1):
            await client.load_adapter(f"a{number}", folder)
        found: dict[str, float] = {}
        for name in (base.name, "a1"):
            for kind, work in (("scored", scored(client, name, rows)), ("generated", generated(client, name))):
                label = "base" if name == base.name else "adapter"
                found[f"{label} {kind}, tokens/s"] = await work
        found["the base moved by a neighbour, nats a token"] = await moved(client, base, rows[0], len(adapters))
    return found


async def scored(client: EngineClient, name: str, rows: list[Row]) -> float:
    await client.prompt_logprobs(name, rows[0].input_ids[:8])
    began = time.monotonic()
    await asyncio.gather(*(client.prompt_logprobs(name, row.input_ids) for row in rows))
    return sum(len(row.input_ids) for row in rows) / (time.monotonic() - began)


async def generated(client: EngineClient, name: str) -> float:
    async def one(number: int) -> None:
        question = [{"role": "user", "content": f"Tell me {number + 3} things about railways."}]
        async for _ in client.stream_chat(name, question, max_tokens=TOKENS, ignore_eos=True, temperature=0):
            pass

    began = time.monotonic()
    await asyncio.gather(*(one(number) for number in range(USERS)))
    return USERS * TOKENS / (time.monotonic() - began)


async def moved(client: EngineClient, base: Base, row: Row, adapters: int) -> float:
    """How far the base's log-probabilities are from those that it gives alone, in one batch with every adapter."""
    alone = await client.prompt_logprobs(base.name, row.input_ids)
    # Others come first: what is scored waits for the step that is under way, and then shares one.
    names = [f"a{number + 1}" for number in range(adapters)]
    beside = [asyncio.create_task(client.prompt_logprobs(name, row.input_ids)) for name in names * 4]
    beside.append(asyncio.create_task(client.prompt_logprobs(base.name, row.input_ids[:-1])))
    together = (await asyncio.gather(*beside))[-1]
    return sum(abs(a - b) for a, b in zip(alone, together, strict=False)) / len(together)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=64)
    args = parser.parse_args()
    base = resolve_base("bundled")
    chance = random.Random(1)
    rows = [Row(str(i), [chance.randrange(100, 40_000) for _ in range(LENGTH)], [1] * LENGTH) for i in range(args.rows)]
    results: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        adapters = [make_adapter(base, Path(folder, f"a{number}"), number) for number in range(SLOTS)]
        for _ in range(args.rounds):
            for way in WAYS:
                with engine(base, way) as url:
                    for what, figure in asyncio.run(measure(url, base, adapters, rows)).items():
                        results[way].setdefault(what, []).append(round(figure, 3))
    medians = {what: {way: statistics.median(results[way][what]) for way in WAYS} for what in results["vllm"]}
    print(json.dumps({"machine": this_machine().device, "medians": medians, "all": results}, indent=2))


if __name__ == "__main__":
    main()
