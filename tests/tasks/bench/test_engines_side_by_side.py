"""Costs, the figures of the baseline's rounds, and the baseline itself on a toy base."""

from pathlib import Path

import pytest

from tasks.bench.engines_side_by_side import PLAIN, draw, round_figures
from tasks.bench.prices import ARTICLES, against, parse_prices, with_cost
from tasks.bench.result import Result, Row
from tasks.bench.transformers_baseline import Baseline, BaselineJob, BaselineRequests, BaselineRound
from tasks.children import run_module
from tests.tasks.bench.material import SUBJECT
from tests.tasks.toy import make_base
from turnout.errors import BadInput
from turnout.references import from_json, to_json


def row(configuration: str, rate: float, on: str = "CPU", users: int = 32) -> Row:
    figures = {"requests_per_s": rate, "tokens_per_s": 32 * rate, "p50_ms": 900 / rate, "p95_ms": 1000 / rate}
    return {"configuration": configuration, "users": users, "on": on, **figures}


@pytest.mark.parametrize(("on", "an_hour", "cost"), [("GPU", 23040, 0.178), ("CPU", 2880, 0.533)])
def test_the_articles_costs_follow_from_its_inputs(on: str, an_hour: int, cost: float) -> None:
    priced = with_cost(row("an engine", an_hour / 3600, on), ARTICLES)
    assert priced["requests_per_hour"] == pytest.approx(an_hour)
    assert round(priced["cost_per_1k_requests_usd"], 3) == cost


def test_prices_are_given_as_two_numbers() -> None:
    assert parse_prices("4.10,1.536") == ARTICLES


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "0,1", "1,-1", "nan,1", "1,inf"])
def test_other_prices_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="two prices above 0"):
        parse_prices(text)


def test_savings_are_against_the_baseline_at_as_many_users() -> None:
    rows = [with_cost(each, ARTICLES) for each in (row(PLAIN, 1), row(PLAIN, 2, users=1), row("vLLM", 4))]
    compared = against(PLAIN, rows[2], rows)
    assert compared["times_transformers"] == 4
    assert compared["cost_saved_percent"] == pytest.approx(75)


def test_a_rounds_figures_are_those_of_its_requests() -> None:
    figures = round_figures(BaselineRound(latencies_s=(1.0, 2.0, 3.0), tokens=30, seconds=3.0))
    assert figures == {"requests_per_s": 1, "tokens_per_s": 10, "p50_ms": 2000, "p95_ms": pytest.approx(2900)}


def test_rates_are_drawn_over_users() -> None:
    rows = [row(name, rate, users=users) for name in (PLAIN, "vLLM") for users, rate in ((1, 1.0), (8, 2.0))]
    drawn = draw(Result("engines", SUBJECT, {}, rows))
    assert drawn is not None and len(drawn.axes) == 2


@pytest.mark.e2e
@pytest.mark.slow
def test_the_baseline_answers_every_request_with_as_many_tokens(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base")
    prompts = ((5, 6, 7, 8), (9, 10), (11, 12, 13))
    rounds = (BaselineRequests(prompts, batched=False), BaselineRequests(prompts, batched=True))
    job = BaselineJob(base.path, None, rounds, max_tokens=6, folder=str(tmp_path / "job"))
    baseline = from_json(Baseline, run_module("tasks.bench.transformers_baseline", to_json(job), tmp_path / "job"))
    plain, batched = baseline.rounds
    assert plain.tokens == batched.tokens == 18
    assert sorted(plain.latencies_s) == list(plain.latencies_s) and len(set(plain.latencies_s)) == 3
    assert len(set(batched.latencies_s)) == 1
    assert baseline.memory_bytes > 0 and baseline.dtype in ("bfloat16", "float32")
