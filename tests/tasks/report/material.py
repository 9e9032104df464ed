"""A run that ended: real Parquet rows, metrics and manifest, without having trained anything."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from registry.versions import Version
from tasks.deploying import Served
from tasks.gate import Rule, Verdict
from tasks.progress import StageRecord
from tasks.report.outcome import Finished
from tests.registry.material import BASE, DATASET, make_adapter, make_manifest
from turnout.references import Answer, Loss, Sample, Scores

HOSTILE = "<script>alert('왜?')</script> & *done*"
RULES = (
    Rule("better_than_base", True, 3.3, 0.0, "eval loss 1.9000 against the base's 5.2000", (3.1, 3.5)),
    Rule("stop_rate", False, 0.5, 0.8, f"one of two answers ended by itself {HOSTILE}"),
)


def finished(folder: Path, **changes: Any) -> Finished:
    """A run whose rows and metrics lie in `folder`; a person's words in it are as hostile as they may be."""
    for side, lengths in (("train", [3, 5, 5, 9]), ("validation", [4, 8])):
        table = pyarrow.table({"input_ids": [[1] * length for length in lengths]})
        pyarrow.parquet.write_table(table, folder / f"{side}.parquet")
    adapter = make_adapter(folder / "run" / "adapter")
    lines = [{"step": step, "loss": 5.0 / step, "learning_rate": 1e-3} for step in (1, 2, 3)]
    lines.append({"step": 3, "eval_loss": 1.9})
    (folder / "run" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    scores = Scores(
        base=Loss(5.2, 200, 2),
        candidate=Loss(1.9, 200, 2),
        champion=Loss(2.1, 200, 2),
        base_original=Loss(4.7, 200, 2),
        candidate_original=Loss(2.2, 200, 2),
        samples=(Sample(HOSTILE, "expected", "of the base", "of the candidate", "of the champion"),),
    )
    answers = (
        Answer("r1", HOSTILE, "expected", "of the engine", "stop", 5),
        Answer("r2", "another", "expected", "cut o", "length", 128),
    )
    served = Served("engine", "http://127.0.0.1:1", 0.0, BASE, str(folder), 0.02, rows=2, tokens=200, eval_loss=1.9)
    run = Finished(
        dataset=replace(DATASET, path=str(folder)),
        adapter=adapter,
        version=Version("bot", 2, "0" * 32, "nowhere", make_manifest(adapter)),
        scores=scores,
        served=replace(served, answers=answers),
        verdict=Verdict(False, RULES),
        switch=None,
        champion_before=1,
        stages={"train": StageRecord(12.5, False), "score": StageRecord(0.0, True)},
    )
    return replace(run, **changes)
