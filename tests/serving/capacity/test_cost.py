"""Costs, from the articles' inputs and from a bench's file; and which precision is advised."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.capacity.advice import RULES, advise
from serving.capacity.cost import Api, Throughput, api_prices, cost, from_bench, measured, money
from turnout.errors import BadInput


@pytest.mark.parametrize(("hourly", "requests", "each"), [(4.10, 23040, 0.178), (1.536, 2880, 0.533)])
def test_the_article_s_cost_lines(hourly: float, requests: float, each: float) -> None:
    assert cost(hourly, Throughput(requests))["per_1k_requests"] == each


def test_tokens_and_an_api_to_compare_with() -> None:
    api = Api(0.5, 1.5, 1000, 500)
    found = cost(3.6, measured(None, 1000.0, None, 500), api)
    assert found["per_million_tokens"] == 1.0 and found["requests_per_hour"] == 7200
    assert found["per_1k_requests"] == 0.5 and found["api_per_1k_requests"] == 1.25
    assert found["break_even_requests_per_hour"] == 2880 and found["cheaper"] == "self-hosted"
    assert cost(3.6, Throughput(2879), api)["cheaper"] == "API"
    nothing = cost(None, Throughput())
    assert nothing["per_1k_requests"] is None and nothing["per_million_tokens"] is None


@given(st.floats(1e-9, 1e9))
def test_money_keeps_three_figures(value: float) -> None:
    assert money(value) == pytest.approx(value, rel=0.005, abs=0.0)


def test_a_bench_s_fastest_row_counts(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    rows = [
        {"configuration": "1 user", "requests_per_s": 0.5, "tokens_per_s": 60},
        {"configuration": "50 users", "requests_per_s": 6.4, "tokens_per_s": 800.0},
        {"configuration": "broken", "requests_per_s": None},
        "a word",
    ]
    file.write_text(json.dumps({"bench": "load", "rows": rows}))
    assert from_bench(file) == Throughput(23040.0, 800.0, "load.json: 50 users")
    file.write_text(json.dumps({"rows": [{"configuration": "x", "tokens_per_s": 9}]}))
    assert from_bench(file) == Throughput(None, 9.0, "load.json: x")


def test_a_bench_s_throughput_names_its_model_and_machine(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    subject = {"model": "tiny", "hardware": {"cpu": "EPYC", "gpus": ["H200"]}}
    file.write_text(json.dumps({"subject": subject, "rows": [{"configuration": "x", "tokens_per_s": 9}]}))
    assert from_bench(file).source == "load.json: x of tiny on H200"


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"rows": 3}', '{"rows": [], "subject": 3}', '{"rows": []}', '{"rows": [{"requests_per_s": NaN}]}'],
)
def test_a_file_that_is_no_bench_result(tmp_path: Path, content: str) -> None:
    file = tmp_path / "load.json"
    file.write_text(content)
    with pytest.raises(BadInput, match=r"--bench .*load.json (is no bench result|has no row)"):
        from_bench(file)


def test_prices_and_throughput_out_of_bounds() -> None:
    for bad in (-1.0, 0.0, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="--requests-per-hour"):
            measured(bad, None, None, None)
    with pytest.raises(BadInput, match=r"or --api-price-per-million\) -1.0 is not a number of at least 0"):
        api_prices(-1.0, None, 1, 1)
    with pytest.raises(BadInput, match="tokens of a request are not given"):
        api_prices(1.0, None, None, None)
    with pytest.raises(BadInput, match="--bench and a throughput"):
        measured(1.0, None, Path("x"), None)


@pytest.mark.parametrize(
    ("generation", "fits", "short"),
    [
        ("Volta", "fp16", "gptq"),
        ("Turing", "fp16", "awq"),
        ("Ampere", "bf16", "awq"),
        ("Ada", "bf16", "awq"),
        ("Hopper", "fp8", "fp8"),
        ("Blackwell", "nvfp4", "nvfp4"),
    ],
)
def test_advice_by_generation(generation: str, fits: str, short: str) -> None:
    def held(precision: str) -> int:
        return 20 if precision == "bf16" else 60

    assert advise(generation, held, 1)["precision"] == fits
    scarce = advise(generation, held, 50)
    assert scarce["precision"] == short and "20 of 50 users" in scarce["reason"] and "60" in scarce["reason"]
    assert scarce["source"].startswith("https://") and RULES[generation].reason in scarce["reason"]
    assert advise("a new one", held, 1)["precision"] == "bf16"
