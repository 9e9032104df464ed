"""Two results of one bench are compared where they are alike, and refused where they are not."""

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.bench.filing import write
from tasks.bench.result import compare, read_result
from tests.tasks.bench.material import SUBJECT, batching_result
from turnout.errors import BadInput, NotFound


def test_a_written_result_is_read_back(tmp_path: Path) -> None:
    result = batching_result()
    assert read_result(write(result, tmp_path).json) == result


def test_ratios_are_of_the_second_over_the_first() -> None:
    ratios = compare(batching_result(), batching_result(faster=2.0))

    assert [(row["configuration"], row["users"]) for row in ratios][:2] == [("continuous", 1), ("continuous", 50)]
    assert ratios[1]["requests_per_s"] == pytest.approx(2.0)
    assert ratios[1]["p99_ms"] == pytest.approx(1.0)
    assert "failed_percent" not in ratios[1]  # nothing is a ratio of zero


def test_another_day_is_no_difference() -> None:
    assert compare(batching_result(), batching_result(replace(SUBJECT, date="2027-01-01T00:00:00+00:00")))


def test_unlike_runs_are_refused_with_every_difference() -> None:
    other = replace(
        SUBJECT, hardware={**SUBJECT.hardware, "cores": 16}, versions={"turnout": "0.1.0", "vllm": "0.26.0"}
    )

    with pytest.raises(BadInput) as refused:
        compare(batching_result(), batching_result(other, input_tokens=128))

    for told in (
        "hardware cores: 2 against 16",
        "versions vllm: 0.32.0 against 0.26.0",
        "input_tokens: 32 against 128",
    ):
        assert told in refused.value.message
    assert refused.value.next_step.endswith("--across versions --across hardware --across settings")


@pytest.mark.parametrize("part", ["model", "adapter", "quantisation"])
def test_what_was_measured_must_be_the_same(part: str) -> None:
    changed = {
        "model": replace(SUBJECT, base_sha256="cd" * 32),
        "adapter": replace(SUBJECT, adapter="bot-v1", adapter_sha256="ef" * 32),
        "quantisation": replace(SUBJECT, quantisation="Q4_K_M"),
    }
    with pytest.raises(BadInput, match=part):
        compare(batching_result(), batching_result(changed[part]))
    assert compare(batching_result(), batching_result(changed[part]), across={part})


def test_a_difference_that_is_asked_for_leaves_the_others_refused() -> None:
    other = replace(SUBJECT, hardware={"cpu": "another"}, versions={"turnout": "0.2.0"})
    with pytest.raises(BadInput) as refused:
        compare(batching_result(), batching_result(other), across={"hardware"})
    assert "hardware" not in refused.value.message and "versions turnout" in refused.value.message


def test_benches_and_parts_must_be_known_and_the_same() -> None:
    with pytest.raises(BadInput, match="batching, the other of load"):
        compare(batching_result(), replace(batching_result(), bench="load"))
    with pytest.raises(BadInput, match="across weather"):
        compare(batching_result(), batching_result(), across={"weather"})


def test_no_common_configuration_is_told() -> None:
    few = replace(batching_result(), rows=[{"configuration": "continuous", "users": 7, "requests_per_s": 1.0}])
    with pytest.raises(BadInput, match="no configuration in common"):
        compare(batching_result(), few)


@pytest.mark.parametrize("text", ["", "[]", '{"bench": "load"}', "\udcff"])
def test_another_file_is_no_result(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput, match="is not a bench's result") as refused:
        read_result(tmp_path / "a.json")
    assert "\n" not in refused.value.message and "https://" not in refused.value.message


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        read_result(tmp_path / "a.json")
