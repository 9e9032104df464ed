"""A real engine under load, asked directly and through the gateway in turns, by vLLM's own serving benchmark."""

import contextlib
import json
import os
import re
import statistics
import sys
import urllib.request
from dataclasses import asdict, dataclass
from typing import Any

from turnout.errors import BadInput, TurnoutError

_VERSION = re.compile(r"-v\d+$")


@dataclass(frozen=True)
class EngineLoad:
    """`prompts` requests of `input_tokens` random tokens, answered with `output_tokens` each, `users` at a time."""

    users: int
    prompts: int
    input_tokens: int
    output_tokens: int
    tokenizer: str


@dataclass(frozen=True)
class EngineFigures:
    requests_per_s: float
    output_tokens_per_s: float
    first_token_p50_ms: float
    between_tokens_p50_ms: float
    input_tokens: int
    output_tokens: int
    failed: int


def compare(direct: str, gateway: str, model: str, load: EngineLoad, rounds: int) -> dict[str, Any]:
    """Both sides `rounds` times, who goes first changing; the figures, and the ratios gateway / direct.

    Raises:
        BadInput: the gateway sends the name to another version than `model`.
        TurnoutError: a side does not answer.
    """
    sides = {"direct": (direct.rstrip("/"), model), "gateway": (gateway.rstrip("/"), _VERSION.sub("", model))}
    for url, name in sides.values():
        _check_model(url, name, model)
    runs: dict[str, list[EngineFigures]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sorted(sides, reverse=number % 2 == 1):
            # A seed of its own: on equal prompts the second side would find the first one's in the prefix cache.
            seed = 2 * number + (side == "gateway")
            runs[side].append(_measure(*sides[side], load, seed))
            print(f"round {number + 1}, {side}: {runs[side][-1]}", file=sys.stderr)
    ratios = {figure: _ratios(runs, figure) for figure in ("requests_per_s", "output_tokens_per_s")}
    return {
        "model": model,
        "load": asdict(load),
        "runs": {side: [asdict(run) for run in figures] for side, figures in runs.items()},
        "ratios": ratios,
        "failed": sum(run.failed for figures in runs.values() for run in figures),
    }


def _ratios(runs: dict[str, list[EngineFigures]], figure: str) -> dict[str, Any]:
    """Gateway / direct: of the medians, and round by round, which shows how much of it is noise."""
    direct, gateway = ([getattr(run, figure) for run in runs[side]] for side in ("direct", "gateway"))
    rounds = [ours / theirs for theirs, ours in zip(direct, gateway, strict=True)]
    return {"of_medians": statistics.median(gateway) / statistics.median(direct), "by_round": rounds}


def _check_model(url: str, name: str, model: str) -> None:
    """One short answer, which must come from `model`."""
    body = {"model": name, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            answered = json.load(answer).get("model")
    except (OSError, ValueError) as error:
        raise TurnoutError(f"{url} does not answer a request for {name!r}: {error}", "Start it: turnout up") from error
    if answered != model:
        raise BadInput(f"{url} answers {name!r} with {answered!r}, not {model!r}", f"Compare with {answered!r}.")


def _measure(url: str, name: str, load: EngineLoad, seed: int) -> EngineFigures:
    from vllm.benchmarks.serve import add_cli_args, main
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    options = {
        "backend": "openai-chat",
        "base-url": url,
        "endpoint": "/v1/chat/completions",
        "model": name,
        "tokenizer": load.tokenizer,
        "dataset-name": "random",
        "random-input-len": load.input_tokens,
        "random-output-len": load.output_tokens,
        "num-prompts": load.prompts,
        "num-warmups": min(load.users, load.prompts),
        "max-concurrency": load.users,
        "temperature": 0,
        "seed": seed,
    }
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    words = [word for option, value in options.items() for word in (f"--{option}", str(value))]
    with contextlib.redirect_stdout(sys.stderr):
        result = main(parser.parse_args([*words, "--ignore-eos", "--disable-tqdm"]))
    if not result["completed"]:
        errors = sorted({error[-300:] for error in result.get("errors", []) if error})
        raise TurnoutError(f"{url} answered none of {load.prompts} requests: {errors[:3]}")
    return EngineFigures(
        requests_per_s=result["request_throughput"],
        output_tokens_per_s=result["output_throughput"],
        first_token_p50_ms=float(result["median_ttft_ms"]),
        between_tokens_p50_ms=float(result["median_itl_ms"]),
        input_tokens=result["total_input_tokens"],
        output_tokens=result["total_output_tokens"],
        failed=load.prompts - result["completed"],
    )
