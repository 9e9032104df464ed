import json
import math
from pathlib import Path

import pytest

from tasks.checkpoints import METRICS, cut_metrics, last_complete, mark_complete, read_metrics
from tasks.guards import check_step
from turnout.errors import TrainingFailed


def checkpoint(folder: Path, step: int, *, complete: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    (path / "optimizer.pt").write_bytes(b"state")
    if complete:
        mark_complete(path)
    return path


def test_the_last_whole_checkpoint_counts_and_the_others_go(tmp_path: Path) -> None:
    whole = checkpoint(tmp_path, 9)
    unmarked = checkpoint(tmp_path, 10, complete=False)
    cut = checkpoint(tmp_path, 20)
    (cut / "optimizer.pt").write_bytes(b"st")
    assert last_complete(tmp_path) == whole
    assert whole.is_dir() and not unmarked.exists() and not cut.exists()


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert last_complete(tmp_path / "absent") is None


def test_a_damaged_mark_is_no_mark(tmp_path: Path) -> None:
    (checkpoint(tmp_path, 9) / "complete.json").write_text("[" * 100_000)
    assert last_complete(tmp_path) is None


def test_metrics_lines_cut_in_the_middle_do_not_count(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_bytes(b'{"step": 1}\n{"st{"step": 2}\n[1]\n\xff\n{"step": 3}\n')
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 3]


def test_metrics_are_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    lines = [json.dumps({"step": step, "loss": 1.0}) + "\n" for step in range(1, 6)]
    (tmp_path / METRICS).write_text("".join(lines) + '{"step": 6, "lo')
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 3, 4, 5]
    assert [line["step"] for line in cut_metrics(tmp_path, 3)] == [1, 2, 3]
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("logs", "said"),
    [
        ({"loss": math.nan, "grad_norm": 1.0}, "step 7: the loss is nan"),
        ({"loss": 1.0, "grad_norm": math.inf}, "gradients' norm inf"),
        ({"loss": 1.0, "grad_norm": 0.0}, "gradients of all LoRA weights are zero"),
    ],
)
def test_a_step_that_learns_nothing_stops_the_run(logs: dict[str, float], said: str) -> None:
    with pytest.raises(TrainingFailed, match=said):
        check_step(7, logs)
