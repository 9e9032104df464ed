"""Sampling modes by task and urgency; what a request says itself counts more."""

from typing import Any

import pytest
from pydantic import ValidationError

from serving.config import GatewayConfig
from serving.gateway.sampling import SamplingConfig, choose_sampling
from turnout.references import from_json, to_json

CONFIG = SamplingConfig()


@pytest.mark.parametrize(
    ("request_", "mode", "values"),
    [
        ({}, "balanced", (0.7, 0.9, 40)),
        ({"urgency": "high"}, "deterministic", (0.0, 1.0, 1)),
        ({"urgency": "low"}, "balanced", (0.7, 0.9, 40)),
        ({"task_type": "code_generation"}, "precise", (0.3, 0.8, 20)),
        ({"task_type": "code_generation", "urgency": "high"}, "precise", (0.3, 0.8, 20)),
        ({"task_type": "creative_writing"}, "creative", (0.9, 0.95, 50)),
        ({"task_type": "classification"}, "deterministic", (0.0, 1.0, 1)),
        ({"task_type": "juggling"}, "balanced", (0.7, 0.9, 40)),
        ({"task_type": "juggling", "urgency": "high"}, "deterministic", (0.0, 1.0, 1)),
        ({"task_type": "creative_writing", "temperature": 0.1, "top_k": 3}, "creative", (0.1, 0.95, 3)),
    ],
)
def test_modes(request_: dict[str, Any], mode: str, values: tuple[float, float, int]) -> None:
    sampling = choose_sampling(CONFIG, request_)
    told = sampling.as_json()
    assert (told["mode"], told["temperature"], told["top_p"], told["top_k"]) == (mode, *values)
    assert told["task_type"] == request_.get("task_type")
    assert told["given"] == [field for field in ("temperature", "top_p", "top_k") if field in request_]


def test_a_penalty_is_passed_on_where_it_is_given() -> None:
    assert choose_sampling(CONFIG, {"repetition_penalty": 1.1}).values["repetition_penalty"] == 1.1
    assert "repetition_penalty" not in choose_sampling(CONFIG, {}).values


def test_modes_and_tasks_of_the_settings_join_the_built_in_ones() -> None:
    sampling = {
        "modes": {"precise": {"temperature": 0.2}, "wild": {"temperature": 1.5, "top_p": 1, "top_k": 0}},
        "tasks": {"poetry": "wild"},
        "default": "wild",
    }
    config = from_json(GatewayConfig, to_json(GatewayConfig.model_validate({"sampling": sampling}))).sampling
    assert choose_sampling(config, {"task_type": "code_generation"}).values == {
        "temperature": 0.2,
        "top_p": 0.8,
        "top_k": 20,
    }
    assert choose_sampling(config, {"task_type": "poetry"}).mode == "wild"
    assert choose_sampling(config, {"task_type": "chat"}).mode == "balanced"
    assert choose_sampling(config, {}).mode == "wild"


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"tasks": {"poetry": "wild"}}, r"tasks\.poetry='wild': the modes are creative, balanced"),
        ({"default": "x"}, r"sampling\.default='x'"),
        ({"modes": {"wild": {"temperature": 1}}}, "top_p"),
        ({"modes": {"precise": {"temperature": 3}}}, "temperature"),
        ({"modes": {"precise": {"heat": 1}}}, "heat"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        SamplingConfig.model_validate(settings)
