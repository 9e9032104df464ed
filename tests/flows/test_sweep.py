"""The sweep as people start it: two trainings, one of them done already, and the better one goes to the gate."""

import pytest

from registry.store import connect
from tests.conftest import PipelineRun

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_the_best_combination_goes_through_the_gate(pipeline_run: PipelineRun) -> None:
    outcome = pipeline_run.again("--sweep", "train.max_steps=2,24")
    assert outcome.code == 0, outcome
    result = outcome.json
    short, long = result["sweep"]
    assert (short["settings"], long["settings"]) == ({"train.max_steps": 2}, {"train.max_steps": 24})
    assert short["eval_loss"] > long["eval_loss"] and (short["chosen"], long["chosen"]) == (False, True)
    assert result["adapter_sha256"] == pipeline_run.first["adapter_sha256"] and result["promoted"]
    assert all(result["stages"][stage]["cached"] for stage in ("prepare", "train", "score", "register"))
    client = connect(pipeline_run.turnout.home)
    parents = {client.get_run(row["run_id"]).data.tags["mlflow.parentRunId"] for row in (short, long)}
    assert len(parents) == 1
