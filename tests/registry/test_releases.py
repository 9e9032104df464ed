import multiprocessing
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry import aliases, releases, versions
from registry.releases import append, fold, history, read_log
from registry.store import connect
from tests.registry.material import NAME, register_one
from turnout.errors import BadInput, NotFound, RegistryConflict
from turnout.paths import Home

WRITERS, APPENDS_EACH = 4, 8


@pytest.fixture
def three(client: MlflowClient, home: Home) -> MlflowClient:
    for weights in (b"one", b"two", b"three"):
        register_one(client, home, weights=weights)
    return client


def promote(client: MlflowClient, version: int, parent: int | None = None) -> releases.Event:
    head = fold(read_log(client, NAME)).head if parent is None else parent
    return append(client, NAME, kind="promote", champion=version, parent=head, actor="ann@here", reason="because")


def test_an_event_that_saw_the_newest_takes_effect(three: MlflowClient) -> None:
    assert read_log(three, NAME) == [] and fold([]).champion is None
    written = [promote(three, 1), promote(three, 2)]
    assert read_log(three, NAME) == written and read_log(three, NAME, after=1) == written[1:]
    release = fold(written)
    assert (release.champion, release.previous, release.generation, release.head) == (2, 1, 2, 2)


def test_a_late_event_has_no_effect_and_its_caller_hears_who_won(three: MlflowClient) -> None:
    promote(three, 1)
    promote(three, 2, parent=1)
    with pytest.raises(RegistryConflict, match=r"ann@here came first with the promote of v2 \(event 2"):
        promote(three, 3, parent=1)
    assert fold(read_log(three, NAME)).champion == 2
    rows = history(three, NAME)
    assert [row["effective"] for row in rows] == [True, True, False]
    assert rows[2]["champion"] == 3 and rows[2]["actor"] == "ann@here" and rows[2]["reason"] == "because"
    assert promote(three, 3).number == 4


def test_an_event_deleted_by_hand_costs_one_repetition(three: MlflowClient) -> None:
    promote(three, 1)
    promote(three, 2)
    three.delete_model_version(f"{NAME}.releases", "2")
    with pytest.raises(RegistryConflict, match="no longer there"):
        promote(three, 3)
    assert promote(three, 3).effective


def test_events_keep_their_routing(three: MlflowClient) -> None:
    promote(three, 1)
    append(three, NAME, kind="canary", champion=1, parent=1, weights={2: 5.0}, schedule={"hold_s": 60})
    release = fold(read_log(three, NAME))
    assert (release.champion, release.weights, release.schedule) == (1, {2: 5.0}, {"hold_s": 60})
    append(three, NAME, kind="abort", champion=1, parent=2, figures={"error_rate": 0.2})
    assert fold(read_log(three, NAME)).weights == {}


def test_what_cannot_be_released_is_not_appended(three: MlflowClient) -> None:
    with pytest.raises(NotFound, match="has no version 9"):
        promote(three, 9)
    with pytest.raises(BadInput, match="at most 4000"):
        append(three, NAME, kind="promote", champion=1, parent=0, reason="x" * 4001)
    with pytest.raises(BadInput, match="is not a kind"):
        append(three, NAME, kind="demote", champion=1, parent=0)  # type: ignore[arg-type]
    assert read_log(three, NAME) == []


def test_the_aliases_follow_the_log(three: MlflowClient) -> None:
    versions.set_candidate(three, NAME, 2)
    promote(three, 1)
    promote(three, 2)
    assert aliases.write_view(three, NAME, fold(read_log(three, NAME))) == []
    assert aliases.read_aliases(three, NAME) == {"champion": 2, "previous": 1}
    append(three, NAME, kind="rollback", champion=1, parent=2)
    versions.set_candidate(three, NAME, 3)
    three.set_registered_model_alias(NAME, "mine", "3")
    assert aliases.write_view(three, NAME, fold(read_log(three, NAME))) == []
    assert aliases.read_aliases(three, NAME) == {"champion": 1, "candidate": 3, "mine": 3}


def test_a_slow_writer_does_not_leave_an_old_view(three: MlflowClient) -> None:
    promote(three, 1)
    old = fold(read_log(three, NAME))
    promote(three, 2)
    assert aliases.write_view(three, NAME, old) == []
    assert aliases.read_aliases(three, NAME) == {"champion": 2, "previous": 1}


def test_a_view_that_cannot_be_written_is_reported(three: MlflowClient) -> None:
    promote(three, 1)
    three.delete_model_version(NAME, "1")
    (problem,) = aliases.write_view(three, NAME, fold(read_log(three, NAME)))
    assert "stale" in problem


def contend(home: Home, writer: int, outcome: Path) -> None:
    client = connect(home)
    won, lost = [], 0
    for _ in range(APPENDS_EACH):
        head = fold(read_log(client, NAME)).head
        try:
            won.append(append(client, NAME, kind="promote", champion=writer % 3 + 1, parent=head).number)
        except RegistryConflict:
            lost += 1
    outcome.write_text(f"{lost} {' '.join(map(str, won))}")


def test_contending_writers_get_one_effect_for_each_parent(three: MlflowClient, home: Home, tmp_path: Path) -> None:
    # Forked children must not inherit a connection to their database, so they get a copy that nobody opened.
    contended = Home(tmp_path / "contended")
    contended.root.mkdir()
    shutil.copy(home.mlflow_database, contended.mlflow_database)
    fork = multiprocessing.get_context("fork")
    outcomes = [tmp_path / f"writer{index}" for index in range(WRITERS)]
    children = [fork.Process(target=contend, args=(contended, i, path)) for i, path in enumerate(outcomes)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    log = read_log(connect(contended), NAME)
    told = [path.read_text().split() for path in outcomes]
    assert [event.number for event in log] == list(range(1, len(log) + 1))
    assert [event.number for event in log if event.effective] == sorted(int(n) for each in told for n in each[1:])
    assert sum(int(each[0]) for each in told) + sum(len(each) - 1 for each in told) == WRITERS * APPENDS_EACH
