"""Memory of one gateway worker over many requests of every kind, from 16 clients, in front of the stub.

    python benchmarks/soak_memory.py [--requests 200000] [--clients 16] [--json FILE]

Plain and streamed requests, clients that leave in mid-stream, ever new x-turnout-key headers, users, unknown models and
paths: whatever the worker remembered of one of them would add up. Prints its resident memory after the first 10,000
requests and at the end, and the slope between; the number of its metrics' lines likewise. Exits 1 when memory grew by
more than --max-growth-mib, an answer was not the expected one, or requests are still counted as in flight.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gateways import contenders
from gateways.load import body

from serving.gateway.records import Worker, list_workers
from serving.tokens import admin_token
from turnout.paths import Home

SETTLED = 10_000
SAMPLE_S = 5.0
MIB = 2**20
CHAT = "/v1/chat/completions"
KINDS = {"plain": 50, "stream": 25, "leaver": 5, "unknown model": 10, "unknown path": 5, "bad body": 5}
"""Percent of the requests."""
EXPECTED = {"unknown model": 404, "unknown path": 404, "bad body": 400}


@dataclass
class Soak:
    """What was sent and seen so far; `samples` are (requests, resident bytes)."""

    total: int
    started: int = 0
    done: int = 0
    wrong: dict[str, int] = field(default_factory=dict)
    samples: list[tuple[int, int]] = field(default_factory=list)


async def client(session: aiohttp.ClientSession, url: str, soak: Soak, seed: int) -> None:
    choose = random.Random(seed)
    while soak.started < soak.total:
        soak.started += 1
        kind = choose.choices(list(KINDS), list(KINDS.values()))[0]
        try:
            seen = await send(session, url, kind, f"{seed}-{soak.started}", sticky=choose.random() < 0.5)
        except (aiohttp.ClientError, TimeoutError) as error:
            seen = type(error).__name__
        if seen != EXPECTED.get(kind, 200):
            label = f"{kind}: {seen}"
            soak.wrong[label] = soak.wrong.get(label, 0) + 1
        soak.done += 1


async def send(session: aiohttp.ClientSession, url: str, kind: str, fresh: str, *, sticky: bool) -> int | str:
    """One request; `fresh` is a text that no other request has. Returns the status, or what was wrong with a stream."""
    headers = {"Content-Type": "application/json", **({"x-turnout-key": fresh} if sticky else {})}
    stream = kind in ("stream", "leaver")
    model = f"unknown-{fresh}" if kind == "unknown model" else contenders.NAME
    data = b'{"model": ' if kind == "bad body" else body(model, stream=stream, **({} if sticky else {"user": fresh}))
    path = f"/unknown/{fresh}" if kind == "unknown path" else CHAT
    async with session.post(url + path, data=data, headers=headers) as answer:
        if kind == "leaver" and answer.status == 200:
            await answer.content.readany()
            answer.close()
            return 200
        text = await answer.read()
        if kind == "stream" and answer.status == 200 and not text.endswith(b"data: [DONE]\n\n"):
            return "the stream has no end"
        return answer.status


async def sample(worker: psutil.Process, soak: Soak) -> None:
    while True:
        soak.samples.append((soak.done, worker.memory_info().rss))
        await asyncio.sleep(SAMPLE_S)


async def metric_lines(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}/metrics") as answer:
        answer.raise_for_status()
        return len((await answer.text()).splitlines())


async def in_flight(session: aiohttp.ClientSession, worker: Worker, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    async with session.get(f"{worker.inner_url}/inner/state", headers=headers) as answer:
        answer.raise_for_status()
        counts = (await answer.json())["in_flight"]
        return sum(n for by_name in counts.values() for n in by_name.values())


async def run(home: Home, requests: int, clients: int) -> dict[str, Any]:
    (worker,) = list_workers(home)
    process = psutil.Process(worker.pid)
    first, rest = Soak(min(SETTLED, requests)), Soak(requests)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        begin = time.perf_counter()
        await asyncio.gather(*(client(session, worker.url, first, seed) for seed in range(clients)))
        lines_before = await metric_lines(session, worker.url)
        rest.started = rest.done = first.done
        sampler = asyncio.create_task(sample(process, rest))
        await asyncio.gather(*(client(session, worker.url, rest, clients + seed) for seed in range(clients)))
        sampler.cancel()
        rest.samples.append((rest.done, process.memory_info().rss))
        seconds = time.perf_counter() - begin
        lines_after = await metric_lines(session, worker.url)
        await asyncio.sleep(1.0)  # the worker learns of the last client that left when it next writes
        left = await in_flight(session, worker, admin_token(home))
    done, rss = zip(*rest.samples, strict=True)
    slope = statistics.linear_regression(done, rss).slope if len(set(done)) > 1 else 0.0
    return {
        "requests": rest.done,
        "seconds": seconds,
        "start_mib": rss[0] / MIB,
        "end_mib": rss[-1] / MIB,
        "most_mib": max(rss) / MIB,
        "slope_kib_per_10000": slope * 10_000 / 1024,
        "metric_lines": [lines_before, lines_after],
        "in_flight_at_the_end": left,
        "wrong": {
            label: first.wrong.get(label, 0) + rest.wrong.get(label, 0) for label in {**first.wrong, **rest.wrong}
        },
        "samples": [[n, bytes_ // 1024] for n, bytes_ in rest.samples],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--max-growth-mib", type=float, default=8.0, help="from the first 10,000 requests to the end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures and samples (requests, KiB) there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gateway-soak-") as temporary:
        folder = Path(temporary)
        with (
            contenders.stub(folder, chunks=8, interval_ms=0) as upstream,
            contenders.turnout(folder, upstream.url) as (_, home),
        ):
            report = uvloop.run(run(home, arguments.requests, arguments.clients))
    growth = report["end_mib"] - report["start_mib"]
    print(f"{report['requests']:,} requests in {report['seconds']:.0f} s from {arguments.clients} clients")
    print(f"resident: {report['start_mib']:.1f} MiB at first, {report['end_mib']:.1f} at the end, {growth:+.1f}")
    print(
        f"slope: {report['slope_kib_per_10000']:+.1f} KiB per 10,000 requests; the most: {report['most_mib']:.1f} MiB"
    )
    print(f"lines of metrics: {report['metric_lines'][0]}, then {report['metric_lines'][1]}")
    print(f"still in flight: {report['in_flight_at_the_end']}; wrong answers: {report['wrong'] or 'none'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return int(growth > arguments.max_growth_mib or bool(report["wrong"]) or report["in_flight_at_the_end"] > 0)


if __name__ == "__main__":
    sys.exit(main())
