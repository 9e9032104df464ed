"""What requests and tokens cost on hired hardware, and when that is cheaper than an API."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.errors import BadInput

SECONDS = 3600
MILLION = 1_000_000


@dataclass(frozen=True)
class Throughput:
    """What was measured: requests an hour, and generated tokens a second; either may be unknown."""

    requests_per_hour: float | None = None
    tokens_per_second: float | None = None
    source: str = ""


@dataclass(frozen=True)
class Api:
    """Prices of a hosted model per million tokens, and the tokens of a mean request."""

    input_per_million: float
    output_per_million: float
    prompt_tokens: int
    output_tokens: int

    @property
    def request(self) -> float:
        spent = self.prompt_tokens * self.input_per_million + self.output_tokens * self.output_per_million
        return spent / MILLION


def cost(hourly: float | None, throughput: Throughput, api: Api | None = None) -> dict[str, Any]:
    """Costs in the currency of `hourly`, the price of the hardware; None where an input is not known.

    `break_even_requests_per_hour` is from how many requests an hour on the hardware is cheaper than the API;
    `api_share` is the API's cost for a request over one's own at the measured throughput.
    """
    requests, tokens = throughput.requests_per_hour, throughput.tokens_per_second
    each = hourly / requests if hourly is not None and requests else None
    break_even = hourly / api.request if hourly is not None and api and api.request else None
    return {
        "hourly": hourly,
        "requests_per_hour": requests,
        "tokens_per_second": tokens,
        "source": throughput.source or None,
        "per_1k_requests": money(each * 1000) if each is not None else None,
        "per_million_tokens": money(hourly / (tokens * SECONDS) * MILLION) if hourly is not None and tokens else None,
        "api_per_1k_requests": money(api.request * 1000) if api else None,
        "break_even_requests_per_hour": math.ceil(break_even) if break_even is not None else None,
        "api_share": round(api.request / each, 3) if api and each else None,
        "cheaper": None if not api or each is None else "self-hosted" if each < api.request else "API",
    }


def money(value: float) -> float:
    """To a tenth of a cent, or to three figures where that would leave fewer."""
    return round(value, max(3, 2 - math.floor(math.log10(value)))) if value > 0 else 0.0


def measured(
    requests_per_hour: float | None, tokens_per_second: float | None, bench: Path | None, output_tokens: int | None
) -> Throughput:
    """What is known of the throughput: from a bench's file, else as given; requests follow from tokens a request.

    Raises:
        BadInput: figures that are not above zero, or a file beside them.
    """
    _above_zero("--requests-per-hour", requests_per_hour)
    _above_zero("--throughput", tokens_per_second)
    if bench is not None:
        if requests_per_hour is not None or tokens_per_second is not None:
            raise BadInput("--bench and a throughput are both given", "Give one of them.")
        return from_bench(bench)
    if requests_per_hour is None and tokens_per_second is not None and output_tokens:
        requests_per_hour = tokens_per_second * SECONDS / output_tokens
    return Throughput(requests_per_hour, tokens_per_second, "")


def api_prices(
    input_price: float | None, output_price: float | None, prompt_tokens: int | None, output_tokens: int | None
) -> Api | None:
    """The API to compare with; None where no price is given.

    Raises:
        BadInput: a price below zero, or no tokens a request.
    """
    if input_price is None and output_price is None:
        return None
    for option, price in (("--api-input-price", input_price), ("--api-output-price", output_price)):
        _above_zero(f"{option} (or --api-price-per-million)", price, or_zero=True)
    if output_tokens is None and prompt_tokens is None:
        raise BadInput(
            "an API's price is a million tokens', and the tokens of a request are not given",
            "Add --prompt-tokens and --output-tokens.",
        )
    return Api(input_price or 0.0, output_price or 0.0, prompt_tokens or 0, output_tokens or 0)


def _above_zero(name: str, value: float | None, or_zero: bool = False) -> None:
    if value is not None and not (math.isfinite(value) and (value > 0 or (or_zero and value == 0))):
        least = "of at least" if or_zero else "above"
        raise BadInput(f"{name} {value} is not a number {least} 0", "Correct it.")


def from_bench(file: Path) -> Throughput:
    """The throughput of the fastest row of a bench's result file, and of what it is, which may be another model.

    Raises:
        BadInput: no such file, or no row with requests_per_s or tokens_per_s.
    """
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
        rows, measured_on = result["rows"], _measured_on(result)
        usable = [row for row in rows if isinstance(row, Mapping) and _figure(row, "requests_per_s")]
        usable = usable or [row for row in rows if isinstance(row, Mapping) and _figure(row, "tokens_per_s")]
    except OSError as error:
        raise BadInput(f"--bench {file} cannot be read: {error.strerror}", "Run `turnout bench load` first.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"--bench {file} is no bench result", "Name the .json that `turnout bench` wrote.") from error
    if not usable:
        raise BadInput(
            f"--bench {file} has no row with requests_per_s or tokens_per_s",
            "Name the result of `turnout bench load`.",
        )
    best = max(usable, key=lambda row: (_figure(row, "requests_per_s"), _figure(row, "tokens_per_s")))
    requests, tokens = _figure(best, "requests_per_s"), _figure(best, "tokens_per_s")
    source = f"{file.name}: {best.get('configuration', 'a row')}{measured_on}"
    return Throughput(requests * SECONDS or None, tokens or None, source)


def _measured_on(result: Mapping[str, Any]) -> str:
    """Model and machine of a bench's result; empty where it does not say."""
    subject = result.get("subject") or {}
    hardware = subject.get("hardware") or {}
    machine = ", ".join(map(str, hardware.get("gpus") or filter(None, [hardware.get("cpu")])))
    return (f" of {subject['model']}" if subject.get("model") else "") + (f" on {machine}" if machine else "")


def _figure(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value or 0) if usable else 0.0
