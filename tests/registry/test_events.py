"""Properties of the fold: what a log says does not depend on those who lost, nor on the order of reading."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from registry.events import KINDS, Event, Release, fold

VERSIONS = st.integers(1, 5)
MOVES = st.lists(
    st.tuples(st.sampled_from(["promote", "rollback", "canary", "abort", "lose", "foreign"]), VERSIONS), max_size=30
)


def play(moves: list[tuple[str, int]]) -> list[Event]:
    """A log as well-behaved writers make it, with losers and hand-made versions in between."""
    log: list[Event] = []
    for kind, version in moves:
        release, number = fold(log), len(log) + 1
        if kind == "lose":
            log.append(Event(number, max(0, number - 2) if number > 1 else -5, "promote", version))
        elif kind == "foreign":
            log.append(Event.from_tags(number, {"made": "by hand"}))
        elif kind == "rollback":
            target = release.previous
            if target is not None:
                log.append(Event(number, release.head, "rollback", target))
        else:
            champion = version if kind == "promote" else release.champion
            log.append(Event(number, release.head, kind, champion, {version: 10.0} if kind == "canary" else {}))
    return log


def state(release: Release) -> Release:
    return replace(release, head=0)


@given(MOVES)
def test_losers_never_change_the_state(moves: list[tuple[str, int]]) -> None:
    log = play(moves)
    assert state(fold(log)) == state(fold([event for event in log if event.effective]))


@given(MOVES, st.randoms(use_true_random=False))
def test_the_order_of_reading_does_not_matter(moves: list[tuple[str, int]], order: random.Random) -> None:
    log = play(moves)
    shuffled = log.copy()
    order.shuffle(shuffled)
    assert fold(shuffled) == fold(log)


@given(MOVES, st.integers(0, 30))
def test_a_reader_may_go_on_from_where_it_was(moves: list[tuple[str, int]], read: int) -> None:
    log = play(moves)
    assert fold(log[read:], fold(log[:read])) == fold(log)


@given(MOVES)
def test_a_rollback_never_goes_to_a_rolled_back_version(moves: list[tuple[str, int]]) -> None:
    log = play(moves)
    for index, event in enumerate(log):
        before = fold(log[:index])
        if event.kind == "rollback":
            assert event.champion not in before.rolled_back
            assert event.champion != before.champion
            assert before.champion in fold(log[: index + 1]).rolled_back


@given(MOVES)
def test_rolling_back_ends(moves: list[tuple[str, int]]) -> None:
    log = play(moves)
    for _ in range(6):
        log = log + play_rollback(log)
    assert fold(log).previous is None


def play_rollback(log: list[Event]) -> list[Event]:
    release = fold(log)
    return [] if release.previous is None else [Event(release.head + 1, release.head, "rollback", release.previous)]


@given(MOVES)
def test_of_all_events_with_one_parent_at_most_one_took_effect(moves: list[tuple[str, int]]) -> None:
    parents = [event.parent for event in play(moves) if event.effective]
    assert len(parents) == len(set(parents))


@given(
    st.builds(
        Event,
        number=st.integers(1, 10**6),
        parent=st.integers(0, 10**6),
        kind=st.sampled_from(KINDS),
        champion=st.none() | VERSIONS,
        weights=st.dictionaries(VERSIONS, st.floats(0, 100)),
        shadow=st.dictionaries(VERSIONS, st.floats(0, 100)),
        schedule=st.dictionaries(st.text(), st.integers()),
        actor=st.text(),
        reason=st.text(),
        figures=st.dictionaries(st.text(), st.floats(allow_nan=False)),
        timestamp=st.text(),
        id=st.text(),
    )
)
def test_an_event_survives_its_tags(event: Event) -> None:
    assert Event.from_tags(event.number, event.to_tags()) == event


def test_the_story_of_a_rollback() -> None:
    log = [Event(1, 0, "promote", 1), Event(2, 1, "promote", 2), Event(3, 2, "promote", 3)]
    log.append(Event(4, 3, "rollback", 2))
    release = fold(log)
    assert (release.champion, release.previous, release.rolled_back) == (2, 1, {3})
    log.append(Event(5, 3, "promote", 1))
    assert fold(log).champion == 2, "the writer of event 5 had not seen event 4"
    assert fold(log).head == 5 and fold(log).generation == 4
    log.append(Event(6, 5, "promote", 3))
    assert fold(log).rolled_back == frozenset(), "a person made it champion again"


def test_damaged_tags_have_no_effect() -> None:
    for tags in ({"parent": "x"}, {"parent": "0"}, {"parent": "0", "kind": "promote", "weights": "[1]"}):
        assert not Event.from_tags(1, tags).effective
    assert not Event.from_tags(1, {"parent": "0", "kind": "unheard-of", "champion": "1"}).effective
