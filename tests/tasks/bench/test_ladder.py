"""What is said of a ladder's figures, and a real one."""

import pytest

from tasks.bench import ladder
from tasks.bench.ladder_steps import QUANTISATIONS, REFERENCE
from tasks.bench.result import Result, Row
from tests.tasks.bench.material import SUBJECT


def row(configuration: str, size_mb: float, over_reference: float = 0.0, base: str = "b-nf4") -> Row:
    return {
        "configuration": configuration,
        "base": base,
        "size_bytes": int(size_mb * 1e6),
        "tokens_per_s": 50.0,
        f"tokens_at_{ladder.SEVERAL}_users_per_s": 100.0,
        "loss_nats": 2.0 + over_reference,
        "loss_over_reference_nats": over_reference,
        "equal_answers_percent": 50.0,
    }


ROWS = [row(REFERENCE, 270), row("llama.cpp Q4_0", 92, 0.1), row("vLLM bfloat16, NF4 parity", 269, -0.01)]


def test_the_formats_are_the_articles() -> None:
    assert QUANTISATIONS == ("f16", "Q8_0", "Q5_K_M", "Q4_K_M", "Q4_0")


def test_a_ladder_that_goes_down_is_said_to() -> None:
    assert ladder.size_notes(ROWS) == ["Each llama.cpp format is smaller than the one before it."]


def test_a_format_that_is_not_smaller_is_named() -> None:
    (note,) = ladder.size_notes([row("llama.cpp Q4_K_M", 92), row("llama.cpp Q4_0", 92)])
    assert note.startswith("llama.cpp Q4_0 (92,000,000 bytes) is not smaller than llama.cpp Q4_K_M")


@pytest.mark.parametrize(("distance", "verdict"), [(-0.01, "within"), (0.03, "above")])
def test_the_distance_of_the_engines_is_held_against_its_limit(distance: float, verdict: str) -> None:
    rows = [*ROWS[:2], row("vLLM bfloat16, original", 269, 0.5, base="b"), row("vLLM bfloat16, NF4", 269, distance)]
    (note,) = ladder.loss_notes(rows, "b-nf4")
    assert f"is {abs(distance):.4f} nats, {verdict} the limit of 0.02; 50 %" in note


def test_loss_and_speed_are_drawn() -> None:
    assert len(ladder.draw(Result("ladder", SUBJECT, {}, ROWS)).axes) == 2
