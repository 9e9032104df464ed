"""What a request costs on hired hardware, and what an engine saves against a baseline."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.bench.result import Row
from turnout.errors import BadInput

HOUR_S = 3600


@dataclass(frozen=True)
class Prices:
    """US dollars an hour."""

    gpu_per_hour: float
    cpu_per_hour: float


ARTICLES = Prices(4.10, 1.536)
"""Of the article on serving XGEN 1.0 (December 2025), which names AWS: an A100 with 40 GB, and 32 CPU cores."""


def parse_prices(text: str) -> Prices:
    """`4.10,1.536` as the prices of a GPU and of the CPUs, in US dollars an hour.

    Raises:
        BadInput: it is something else.
    """
    try:
        gpu, cpu = (float(word) for word in text.split(","))
    except ValueError:
        gpu = cpu = math.nan
    if not (0 < gpu < math.inf and 0 < cpu < math.inf):
        raise BadInput(
            f"--prices {text!r:.60} is not two prices above 0", "Give a GPU's and the CPUs': --prices 4.10,1.536"
        )
    return Prices(gpu, cpu)


def with_cost(row: Row, prices: Prices) -> Row:
    """`row`, measured `on` "GPU" or "CPU", with its requests an hour and the cost of a thousand of them."""
    per_hour = row["requests_per_s"] * HOUR_S
    price = prices.gpu_per_hour if row["on"] == "GPU" else prices.cpu_per_hour
    return row | {"requests_per_hour": per_hour, "cost_per_1k_requests_usd": price / per_hour * 1000}


def against(baseline: str, row: Row, rows: Sequence[Row]) -> Row:
    """`row` beside the configuration `baseline` at as many users: how many times its speed, and the cost saved."""
    plain = next(each for each in rows if each["configuration"] == baseline and each["users"] == row["users"])
    saved = 1 - row["cost_per_1k_requests_usd"] / plain["cost_per_1k_requests_usd"]
    return row | {"times_transformers": row["tokens_per_s"] / plain["tokens_per_s"], "cost_saved_percent": 100 * saved}
