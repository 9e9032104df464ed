"""The release log, its race and its view, on every kind of registry."""

import pytest

from registry import aliases, versions
from registry.events import Event
from registry.releases import append, fold, history, read_log
from tests.registry.conftest import Registry
from tests.registry.processes import in_processes, meet
from turnout.errors import BadInput, NotFound, RegistryConflict

WRITERS, APPENDS_EACH, ROUNDS = 4, 25, 10


@pytest.fixture
def three(registry: Registry) -> Registry:
    registry.register(b"one", b"two", b"three")
    return registry


def events(registry: Registry, *, after: int = 0) -> list[Event]:
    return read_log(registry.client, registry.name, after=after)


def promote(registry: Registry, version: int, parent: int | None = None, actor: str = "ann@here") -> Event:
    head = fold(events(registry)).head if parent is None else parent
    client, name = registry.client, registry.name
    return append(client, name, kind="promote", champion=version, parent=head, actor=actor, reason="because")


def test_an_event_that_saw_the_newest_takes_effect(three: Registry) -> None:
    assert events(three) == [] and fold([]).champion is None
    written = [promote(three, 1), promote(three, 2)]
    assert events(three) == written and events(three, after=1) == written[1:]
    release = fold(written)
    assert (release.champion, release.previous, release.generation, release.head) == (2, 1, 2, 2)


def test_a_late_event_has_no_effect_and_its_caller_hears_who_won(three: Registry) -> None:
    promote(three, 1)
    promote(three, 2, parent=1)
    with pytest.raises(RegistryConflict, match=r"ann@here came first with the promote of v2 \(event 2"):
        promote(three, 3, parent=1)
    assert fold(events(three)).champion == 2
    rows = history(three.client, three.name)
    assert [row["effective"] for row in rows] == [True, True, False]
    assert rows[2]["champion"] == 3 and rows[2]["actor"] == "ann@here" and rows[2]["reason"] == "because"
    assert promote(three, 3).number == 4


def test_an_event_deleted_by_hand_costs_one_repetition(three: Registry) -> None:
    promote(three, 1)
    promote(three, 2)
    three.client.delete_model_version(f"{three.name}.releases", "2")
    with pytest.raises(RegistryConflict, match="no longer there"):
        promote(three, 3)
    assert promote(three, 3).effective


def test_events_keep_their_routing(three: Registry) -> None:
    promote(three, 1)
    append(three.client, three.name, kind="canary", champion=1, parent=1, weights={2: 5.0}, schedule={"hold_s": 60})
    release = fold(events(three))
    assert (release.champion, release.weights, release.schedule) == (1, {2: 5.0}, {"hold_s": 60})
    append(three.client, three.name, kind="abort", champion=1, parent=2, figures={"error_rate": 0.2})
    assert fold(events(three)).weights == {}


def test_what_cannot_be_released_is_not_appended(three: Registry) -> None:
    with pytest.raises(NotFound, match="has no version 9"):
        promote(three, 9)
    with pytest.raises(BadInput, match="at most 4000"):
        append(three.client, three.name, kind="promote", champion=1, parent=0, reason="x" * 4001)
    with pytest.raises(BadInput, match="is not a kind"):
        append(three.client, three.name, kind="demote", champion=1, parent=0)  # type: ignore[arg-type]
    assert events(three) == []


def test_the_aliases_follow_the_log(three: Registry) -> None:
    versions.set_candidate(three.client, three.name, 2)
    promote(three, 1)
    promote(three, 2)
    assert aliases.write_view(three.client, three.name, fold(events(three))) == []
    assert aliases.read_aliases(three.client, three.name) == {"champion": 2, "previous": 1}
    append(three.client, three.name, kind="rollback", champion=1, parent=2)
    versions.set_candidate(three.client, three.name, 3)
    three.client.set_registered_model_alias(three.name, "mine", "3")
    assert aliases.write_view(three.client, three.name, fold(events(three))) == []
    assert aliases.read_aliases(three.client, three.name) == {"champion": 1, "candidate": 3, "mine": 3}


def test_a_slow_writer_does_not_leave_an_old_view(three: Registry) -> None:
    promote(three, 1)
    old = fold(events(three))
    promote(three, 2)
    assert aliases.write_view(three.client, three.name, old) == []
    assert aliases.read_aliases(three.client, three.name) == {"champion": 2, "previous": 1}


def test_a_view_that_cannot_be_written_is_reported(three: Registry) -> None:
    promote(three, 1)
    three.client.delete_model_version(three.name, "1")
    (problem,) = aliases.write_view(three.client, three.name, fold(events(three)))
    assert "stale" in problem


def contend(registry: Registry) -> tuple[list[int], int]:
    """Read, decide, append, as a release manager does: the numbers won, and how often another was first."""
    won, lost, release = list[int](), 0, fold([])
    meet()
    for turn in range(APPENDS_EACH):
        release = fold(events(registry, after=release.head), release)
        try:
            won.append(promote(registry, turn % 3 + 1, release.head).number)
        except RegistryConflict:
            lost += 1
    return won, lost


def register_three(registry: Registry) -> None:
    registry.register(b"one", b"two", b"three")


def test_contending_writers_get_one_effect_for_each_parent(registry: Registry) -> None:
    in_processes(register_three, [registry])
    told = in_processes(contend, [registry] * WRITERS)
    log = events(registry)
    won, lost = sorted(number for each, _ in told for number in each), sum(count for _, count in told)
    assert [event.number for event in log] == list(range(1, len(log) + 1))
    assert [event.number for event in log if event.effective] == won
    assert len(won) + lost == WRITERS * APPENDS_EACH


def release_at_once(machine: Registry) -> list[int | str]:
    """In each round the number of the own event, or what the loser was told."""
    actor, told = machine.home.root.name, list[int | str]()
    for turn in range(ROUNDS):
        head = fold(events(machine)).head
        meet()
        try:
            told.append(promote(machine, turn % 3 + 1, head, actor=actor).number)
        except RegistryConflict as error:
            told.append(error.message)
        meet()
    return told


def test_of_two_machines_at_the_same_instant_one_is_told_that_it_lost(registry: Registry) -> None:
    in_processes(register_three, [registry])
    machines = [registry.elsewhere(index) for index in range(2)]
    told = in_processes(release_at_once, machines)
    winners = {event.number: event.actor for event in events(registry) if event.effective}
    assert len(winners) == ROUNDS
    for outcomes in zip(*told, strict=True):
        won, lost = sorted(outcomes, key=lambda each: isinstance(each, str))
        assert isinstance(won, int) and isinstance(lost, str), outcomes
        assert winners[won] == machines[outcomes.index(won)].home.root.name
        assert f"{winners[won]} came first" in lost and f"(event {won}," in lost
