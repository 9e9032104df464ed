"""Promotes and rolls back under load, and checks every answer.

Needs a stack that is up (`turnout up`) and a name with two proven versions. Clients keep asking the gateway for
the name, half of them streaming, while this script switches between the two versions:

    python benchmarks/switch_soak.py incidents --switches 200 --clients 50

Checked of every answer: HTTP 200; the header's version, the body's `model` and every chunk's agree; it is a version
that was routed between the request and its first byte; a stream ends with a finish reason and [DONE] on the
version that it began with. Exit code 1 where anything fails.
"""

import argparse
import asyncio
import json
import platform
import random
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp

from registry.names import served_name
from registry.releases import fold, read_log
from registry.store import connect
from registry.versions import list_versions
from serving.gateway.records import list_workers
from serving.releasing import Switch, promote, rollback
from turnout.paths import home

PROMPTS = (
    "Analyse this error log: OOMKilled, exit code 137",
    "Analyse this error log: connection refused on port 5432",
    "Analyse this error log: No space left on device",
)


@dataclass
class Routed:
    """Which versions may answer, and since when until when, in seconds of the monotonic clock."""

    spans: list[tuple[int, float, float]] = field(default_factory=list)

    def begin(self, version: int) -> None:
        self.spans.append((version, time.monotonic(), float("inf")))

    def end(self, version: int) -> None:
        """The version left when the switch away from it was acknowledged: now."""
        for index, (known, since, until) in enumerate(self.spans):
            if known == version and until == float("inf"):
                self.spans[index] = (known, since, time.monotonic())

    def between(self, start: float, stop: float) -> set[int]:
        return {version for version, since, until in self.spans if since <= stop and until >= start}


@dataclass
class Tally:
    answers: int = 0
    streams: int = 0
    versions: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


async def ask_for_ever(
    session: aiohttp.ClientSession, url: str, name: str, number: int, routed: Routed, tally: Tally, stop: asyncio.Event
) -> None:
    stream = number % 2 == 0
    while not stop.is_set():
        body = {
            "model": name,
            "messages": [{"role": "user", "content": random.choice(PROMPTS)}],
            "max_tokens": random.randint(4, 24),
            "temperature": 0,
            "stream": stream,
        }
        sent = time.monotonic()
        try:
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                first = time.monotonic()
                problem = await check(response, name, stream, tally, routed.between(sent, first))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        tally.answers += 1
        tally.streams += stream
        tally.seconds.append(time.monotonic() - sent)
        if problem:
            tally.failures.append(problem)


async def check(response: aiohttp.ClientResponse, name: str, stream: bool, tally: Tally, allowed: set[int]) -> str:
    """What is wrong with an answer, or nothing."""
    raw = await response.read()
    if response.status != 200:
        return f"HTTP {response.status}: {raw[:200]!r}"
    header = response.headers.get("x-turnout-version", "")
    tally.versions[header] += 1
    if header not in {served_name(name, version) for version in allowed}:
        return f"{header} answered while {sorted(allowed)} were routed"
    if not stream:
        answer = json.loads(raw)
        return "" if answer["model"] == header else f"the header says {header}, the body {answer['model']}"
    events = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        return f"a stream of {len(events)} events ends without [DONE]: {events[-1:]}"
    chunks = [json.loads(event) for event in events[:-1]]
    models = {chunk.get("model") for chunk in chunks}
    if models != {header}:
        return f"the header says {header}, the chunks {models}"
    finished = any(choice.get("finish_reason") for chunk in chunks for choice in chunk["choices"])
    return "" if finished else "a stream ends without a finish reason"


async def switch_for(name: str, one: int, other: int, switches: int, pause_s: float, routed: Routed) -> list[Switch]:
    """Promote `other`, roll back to `one`, and so on."""
    done: list[Switch] = []
    for index in range(switches):
        target, left = (other, one) if index % 2 == 0 else (one, other)
        routed.begin(target)
        if target == other:
            switch = await asyncio.to_thread(promote, home(), name, target, reason="soak")
        else:
            switch = await asyncio.to_thread(rollback, home(), name, reason="soak")
        if switch.to != target or not switch.changed:
            raise SystemExit(f"wanted v{target}, got {switch}")
        routed.end(left)
        done.append(switch)
        if sys.stderr.isatty() or index % 20 == 19:
            print(f"{index + 1}/{switches} switches, last in {switch.seconds:.3f} s", file=sys.stderr)
        await asyncio.sleep(pause_s)
    return done


async def soak(args: argparse.Namespace) -> dict[str, Any]:
    client = connect(home())
    url = args.url or list_workers(home())[0].url
    champion = fold(read_log(client, args.name)).champion
    others = [version.number for version in list_versions(client, args.name) if version.number != champion]
    if champion is None or not others:
        raise SystemExit(f"{args.name} needs a champion and another proven version")
    one, other = champion, args.other or others[-1]
    routed, tally, stop = Routed(), Tally(), asyncio.Event()
    routed.begin(one)
    timeout = aiohttp.ClientTimeout(total=args.timeout)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        asked = [
            asyncio.ensure_future(ask_for_ever(session, url, args.name, number, routed, tally, stop))
            for number in range(args.clients)
        ]
        await asyncio.sleep(args.warm_up)
        began = time.monotonic()
        switches = await switch_for(args.name, one, other, args.switches, args.pause, routed)
        took = time.monotonic() - began
        stop.set()
        await asyncio.gather(*asked)
    return report(args, switches, tally, took)


def report(args: argparse.Namespace, switches: list[Switch], tally: Tally, took: float) -> dict[str, Any]:
    seconds = {kind: [each.seconds for each in switches if each.kind == kind] for kind in ("promote", "rollback")}
    return {
        "name": args.name,
        "switches": len(switches),
        "clients": args.clients,
        "took_s": round(took, 1),
        "answers": tally.answers,
        "streams": tally.streams,
        "by_version": dict(tally.versions),
        "failed": len(tally.failures),
        "failures": tally.failures[:10],
        "pending": sum(bool(each.pending) for each in switches),
        **{
            f"{kind}_s": {"p50": quantile(values, 0.5), "p95": quantile(values, 0.95), "max": max(values)}
            for kind, values in seconds.items()
            if values
        },
        "answer_s": {"p50": quantile(tally.seconds, 0.5), "p95": quantile(tally.seconds, 0.95)},
        "machine": f"{platform.machine()}, {platform.system()}, {datetime.now(UTC).date()}",
    }


def quantile(values: list[float], share: float) -> float:
    return (
        round(statistics.quantiles(values, n=100, method="inclusive")[int(share * 100) - 1], 3)
        if len(values) > 1
        else round(values[0], 3)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the adapter's name")
    parser.add_argument("--switches", type=int, default=200)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--other", type=int, help="the version to switch to and from; the newest other one if left out")
    parser.add_argument("--url", help="the gateway; this home's if left out")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between switches")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds of load before the first switch")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one answer")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    result = asyncio.run(soak(args))
    if args.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:<11} {value}")
    sys.exit(1 if result["failed"] or result["pending"] else 0)


if __name__ == "__main__":
    main()
