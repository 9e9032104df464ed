"""Times a full proof and the quick probe of a name's champion, and what live streams lose meanwhile.

Needs a stack that is up, with `serving.replicas=2` for `--streams`: the proof is made on a drained replica, while the
streams go on at the other one. Rounds in which that one rests and in which it proves take turns; the ratio is of
their medians.

    python benchmarks/proof.py incidents --streams 4 --rounds 3
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from serving.client import EngineClient
from serving.evidence import Evidence, kept_evidence
from serving.gateway.records import list_workers
from serving.proof import Proof, Subject, prove
from serving.proofs import kept_proof
from serving.proving import quiet_engine
from serving.quick import quick_probe
from serving.records import Engine, serving_engines
from serving.routes import RoutedVersion, read_routes
from turnout.paths import home

TOKENS = 64
QUICK_TIMES = 5


@dataclass(frozen=True)
class Champion:
    name: str
    served_name: str
    version: RoutedVersion
    engine: Engine
    evidence: Evidence
    proof: Proof


def find(name: str) -> Champion:
    routes = read_routes(home())
    if routes is None or name not in routes.names:
        raise SystemExit(f"{name} is not served here: turnout run, then turnout up")
    on = routes.names[name]
    version = on.versions[str(on.champion)]
    engine = next(each for each in serving_engines(home()) if each.base.sha256 == version.base_sha256)
    evidence = kept_evidence(home(), version.adapter_sha256, version.base_sha256)
    proof = kept_proof(home(), version.adapter_sha256, version.base_sha256, engine.build)
    if evidence is None or proof is None:
        raise SystemExit(f"{name}-v{on.champion} is not proven on {engine.build}: turnout run")
    return Champion(name, f"{name}-v{on.champion}", version, engine, evidence, proof)


async def prove_again(champion: Champion, place: Engine) -> Proof:
    """Prove the champion once more, in full, on an engine that gets no traffic meanwhile."""
    version, base = champion.version, place.base
    subject = Subject(
        champion.served_name, Path(version.path), version.adapter_sha256, base.name, base.sha256, place.build
    )
    async with EngineClient(place.url, timeout_s=1800) as client:
        await client.load_adapter(subject.name, subject.folder)
        return (await prove(client, subject, champion.evidence))[0]


async def quick_seconds(champion: Champion) -> list[float]:
    seconds = []
    async with EngineClient(champion.engine.url) as client:
        for _ in range(QUICK_TIMES):
            began = time.monotonic()
            await quick_probe(client, champion.served_name, champion.proof.quick)
            seconds.append(time.monotonic() - began)
    return seconds


async def stream_rate(name: str, streams: int, over: Callable[[], bool]) -> float:
    """Tokens a second of `streams` clients at the gateway, from the first until `over` says so."""
    tokens = 0
    key = os.environ.get("TURNOUT_KEY")

    async def client(number: int) -> None:
        nonlocal tokens
        async with EngineClient(list_workers(home())[0].url, key=key) as gateway:
            while not over():
                question = [{"role": "user", "content": f"Analyse this error log: case {number} of {tokens}"}]
                async for chunk in gateway.stream_chat(name, question, max_tokens=TOKENS, ignore_eos=True):
                    tokens += bool(chunk.text)

    began = time.monotonic()
    await asyncio.gather(*(client(number) for number in range(streams)))
    return tokens / (time.monotonic() - began)


async def beside_streams(
    champion: Champion, place: Engine, streams: int, rounds: int, seconds: float
) -> dict[str, object]:
    """Rates of live streams while another replica rests, and while it proves, in turns of so many seconds."""
    alone, beside = [], []
    for _ in range(rounds):
        until = time.monotonic() + seconds
        alone.append(await stream_rate(champion.name, streams, lambda end=until: time.monotonic() > end))
        proof = asyncio.create_task(prove_again(champion, place))
        until = time.monotonic() + seconds
        beside.append(
            await stream_rate(champion.name, streams, lambda end=until, of=proof: of.done() or time.monotonic() > end)
        )
        proof.cancel()  # beside streams that take all cores it gets what they leave
    ratio = statistics.median(beside) / statistics.median(alone)
    return {"alone_tokens_s": alone, "beside_tokens_s": beside, "ratio": round(ratio, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--streams", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="of a round")
    args = parser.parse_args()
    champion = find(args.name)
    quick = asyncio.run(quick_seconds(champion))
    with quiet_engine(home(), champion.engine) as place:
        proof = asyncio.run(prove_again(champion, place))
    found: dict[str, object] = {
        "build": champion.engine.build,
        "rows": proof.rows,
        "tokens": proof.tokens,
        "proof_seconds": proof.seconds,
        "difference_nats": round(proof.difference, 5),
        "quick_probe_seconds": round(statistics.median(quick), 3),
    }
    if args.streams:
        with quiet_engine(home(), champion.engine) as place:
            if place.role != "resting":
                raise SystemExit(f"{place.id} was not drained: start the stack with serving.replicas=2")
            found |= asyncio.run(beside_streams(champion, place, args.streams, args.rounds, args.seconds))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
