import pickle

import pytest

from turnout import errors
from turnout.digests import canonical_json, files_sha256
from turnout.references import Loss, Sample, Scores, from_json, to_json


def every_error(kind: type[errors.TurnoutError] = errors.TurnoutError) -> list[type[errors.TurnoutError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in every_error(child))]


@pytest.mark.parametrize("kind", every_error())
def test_errors_survive_a_pickle(kind: type[errors.TurnoutError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("what", "next")))  # noqa: S301
    assert (type(copy), copy.message, copy.next_step, str(copy)) == (kind, "what", "next", "what\nnext")
    assert kind.exit_code in (1, 2, 3)


def test_scores_survive_json() -> None:
    loss = Loss(1.89, 1000, 24)
    scores = Scores(loss, loss, None, loss, loss, (Sample("p", "e", "b", "c"),))
    assert from_json(Scores, to_json(scores)) == scores


def test_canonical_json_does_not_depend_on_order() -> None:
    assert canonical_json({"b": 1, "a": "원인"}) == canonical_json({"a": "원인", "b": 1}) == '{"a":"원인","b":1}'


def test_a_folders_digest_does_not_depend_on_its_place(tmp_path) -> None:  # type: ignore[no-untyped-def]
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("1")
        (tmp_path / name / "b").write_text("2")
    here, there = (sorted((tmp_path / name).iterdir()) for name in ("here", "there"))
    assert files_sha256(here) == files_sha256(reversed(there))
    (tmp_path / "there" / "b").write_text("3")
    assert files_sha256(here) != files_sha256(there)
