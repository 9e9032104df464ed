"""Estimates of trainings, beside the peaks that were measured."""

import pytest

from tasks.training_memory import MEASURED, MeasuredRun, compared


@pytest.mark.parametrize("run", MEASURED, ids=lambda run: run.name)
def test_estimates_are_never_below_a_measured_peak_and_at_most_a_quarter_above(run: MeasuredRun) -> None:
    assert run.peak_gb <= compared(run)["estimated_gb"] <= 1.25 * run.peak_gb
