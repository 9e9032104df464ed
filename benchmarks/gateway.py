"""Turnout's gateway beside the Rust vllm-router and LiteLLM's proxy, in front of the same stub, in one run.

    python benchmarks/gateway.py [--rounds 5] [--seconds 5] [--skip router,litellm] [--json FILE]
    python benchmarks/gateway.py --end-to-end ENGINE_URL GATEWAY_URL NAME-vN --tokenizer FOLDER [--users 50]

The first form needs wrk (apt-get install wrk) and uv; it installs the other two gateways once, each into an environment
of its own in the cache folder. Measurements go round: direct, turnout, router, litellm, direct, … The table holds
medians over the rounds and the sum of failed requests. Turnout and LiteLLM run one process each (Turnout's number:
--workers), the router as many threads as there are CPUs, which is what each does by default. The router runs twice: as
it comes, and with its cheapest policy, round_robin. Goals: requests/s at least those of the router as it comes and 60
times LiteLLM's, and at most 0.4 ms added at one client.

The second form drives a real engine with vLLM's own serving benchmark, directly and through the gateway in turns.
NAME-vN is the version that the engine lists and that the gateway sends NAME to; a client key for the gateway
goes into OPENAI_API_KEY. The prompts are random and differ in each run, so no prefix cache helps. Goal: at least 0.97.
"""

import argparse
import contextlib
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gateways import contenders, engine, load, streams
from gateways.contenders import Contender

from turnout.errors import TurnoutError

GATEWAYS = ("turnout", "router", "litellm")
CLIENTS = (1, 16, 50)
STREAM_CLIENTS = (1, 50)
WARM_UP_S = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind, in turns (default 5)")
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement (default 5)")
    parser.add_argument("--skip", default="", help=f"gateways to leave out: {','.join(GATEWAYS)}")
    parser.add_argument("--workers", type=int, default=1, help="processes of Turnout's gateway")
    parser.add_argument("--no-streams", action="store_true", help="leave out streamed answers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there too")
    end = parser.add_argument_group("a real engine")
    end.add_argument("--end-to-end", nargs=3, metavar=("ENGINE_URL", "GATEWAY_URL", "NAME-vN"))
    end.add_argument("--tokenizer", metavar="FOLDER", help="the base model's folder")
    end.add_argument("--users", type=int, default=50)
    end.add_argument("--prompts", type=int, default=200, help="requests of one run")
    end.add_argument("--input-tokens", type=int, default=64)
    end.add_argument("--output-tokens", type=int, default=64)
    arguments = parser.parse_args()
    if unknown := {*arguments.skip.split(",")} - {"", *GATEWAYS}:
        parser.error(f"--skip {', '.join(sorted(unknown))}: the gateways are {', '.join(GATEWAYS)}")
    if arguments.rounds < 1 or arguments.seconds < 1:
        parser.error("--rounds and --seconds must be at least 1")
    if arguments.end_to_end and not arguments.tokenizer:
        parser.error("--end-to-end needs --tokenizer, the folder of the base model")
    try:
        report = end_to_end(arguments) if arguments.end_to_end else side_by_side(arguments)
    except TurnoutError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if arguments.json:
        arguments.json.write_text(json.dumps({**machine(), **report}, indent=2) + "\n")
    return 0


def side_by_side(arguments: argparse.Namespace) -> dict[str, Any]:
    load.require_wrk()
    skip = arguments.skip.split(",")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-benchmark-")))
        upstream = stack.enter_context(contenders.stub(folder))
        field = [upstream]
        if "turnout" not in skip:
            field.append(stack.enter_context(contenders.turnout(folder, upstream.url, workers=arguments.workers))[0])
        if "router" not in skip:
            field.append(stack.enter_context(contenders.router(folder, upstream.url)))
            field.append(stack.enter_context(contenders.router(folder, upstream.url, "round_robin")))
        if "litellm" not in skip:
            field.append(stack.enter_context(contenders.litellm(folder, upstream.url)))
        for contender in field:
            load.check(contender)
            load.measure(contender, max(CLIENTS), WARM_UP_S, folder)
        plain, streamed = measure(field, arguments, folder)
    report = {
        "versions": {each.name: each.version for each in field} | {"wrk": load.wrk_version()},
        "settings": {"rounds": arguments.rounds, "seconds": arguments.seconds, "workers": arguments.workers},
        "plain": {name: {clients: asdict(f) for clients, f in by.items()} for name, by in plain.items()},
        "streams": {name: {clients: asdict(f) for clients, f in by.items()} for name, by in streamed.items()},
        "ratios": ratios(plain),
    }
    print_report(report)
    return report


def measure(
    field: list[Contender], arguments: argparse.Namespace, folder: Path
) -> tuple[dict[str, dict[int, load.Figures]], dict[str, dict[int, streams.StreamFigures]]]:
    """The medians by contender and number of clients."""
    plain: dict[tuple[str, int], list[load.Figures]] = {}
    streamed: dict[tuple[str, int], list[streams.StreamFigures]] = {}
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
        for clients in CLIENTS:
            for each in field:
                figures = load.measure(each, clients, arguments.seconds, folder)
                plain.setdefault((each.name, clients), []).append(figures)
        for clients in () if arguments.no_streams else STREAM_CLIENTS:
            for each in field:
                pieces = streams.measure(each, clients, arguments.seconds)
                streamed.setdefault((each.name, clients), []).append(pieces)
    return (
        {each.name: {c: load.median(plain[each.name, c]) for c in CLIENTS} for each in field},
        {each.name: {c: streams.median(streamed[each.name, c]) for c in STREAM_CLIENTS} for each in field if streamed},
    )


def ratios(plain: dict[str, dict[int, load.Figures]]) -> dict[str, Any]:
    """Turnout's requests/s over each other gateway's, by clients, and what it adds to the median at one client."""
    if not (ours := plain.get("turnout")):
        return {}
    others = {name: by for name, by in plain.items() if name not in ("direct", "turnout")}
    over = {
        f"turnout/{name}": {c: ours[c].requests_per_s / max(by[c].requests_per_s, 1e-9) for c in CLIENTS}
        for name, by in others.items()
    }
    return {**over, "added_p50_ms_at_1": ours[1].p50_ms - plain["direct"][1].p50_ms}


def print_report(report: dict[str, Any]) -> None:
    print("; ".join(str(value) for value in machine().values()))
    print("; ".join(f"{name}: {found}" for name, found in report["versions"].items()))
    for kind in ("plain", "streams"):
        rows = [(name, c, figures) for name, by in report[kind].items() for c, figures in by.items()]
        if rows:
            print(f"\n{kind:20}{'clients':>8}" + "".join(f"{figure:>16}" for figure in rows[0][2]))
        for name, c, figures in sorted(rows, key=lambda row: row[1]):
            print(f"{name:20}{c:8}" + "".join(f"{shown(value):>16}" for value in figures.values()))
    print()
    for name, value in report["ratios"].items():
        by_clients = value.items() if isinstance(value, dict) else ()
        print(f"{name}: " + (", ".join(f"{c} clients {v:.2f}" for c, v in by_clients) or f"{value:.3f}"))


def shown(value: float) -> str:
    """Counts whole, small figures to a thousandth."""
    return f"{value:,.3f}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"


def end_to_end(arguments: argparse.Namespace) -> dict[str, Any]:
    direct, gateway, model = arguments.end_to_end
    wanted = engine.EngineLoad(
        users=arguments.users,
        prompts=arguments.prompts,
        input_tokens=arguments.input_tokens,
        output_tokens=arguments.output_tokens,
        tokenizer=arguments.tokenizer,
    )
    report = engine.compare(direct, gateway, model, wanted, arguments.rounds)
    print("; ".join(str(value) for value in machine().values()))
    columns = ("requests/s", "tokens/s", "first ms", "next ms", "tokens in", "tokens out", "failed")
    print(f"\n{'':10}" + "".join(f"{column:>12}" for column in columns))
    for side, runs in report["runs"].items():
        for run in runs:
            print(f"{side:10}" + "".join(f"{value:12.2f}" for value in run.values()))
    for figure, found in report["ratios"].items():
        rounds = ", ".join(f"{ratio:.3f}" for ratio in found["by_round"])
        print(f"gateway / direct, {figure}: {found['of_medians']:.3f} of the medians; by round {rounds}")
    print(f"failed requests: {report['failed']}")
    return report


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": f"{cpu}, {os.cpu_count()} CPUs",
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
