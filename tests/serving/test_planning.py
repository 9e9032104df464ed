"""The next routes, from the log and from what the replicas have ready."""

from dataclasses import replace
from typing import Any

import pytest

from registry.releases import Release
from serving.following import Desired
from serving.journal import Override
from serving.planning import Plan, overridden, plan, servable, target
from serving.routes import NameRoutes, Replica, RoutedVersion, Routes, routed
from turnout.references import Base

BASE = Base("base", "base", "/nowhere", "a" * 64, "b" * 64, "c" * 64, (0,))
OTHER = replace(BASE, name="other", sha256="d" * 64)
BASES = {BASE.sha256: BASE}
OVERRIDE = Override("id", "bot", 2, 1, "ada", "", "2026-01-01T00:00:00+00:00")


def versions(*numbers: int, base: Base = BASE) -> dict[int, RoutedVersion]:
    return {number: RoutedVersion(f"{number}" * 64, f"/adapters/{number}", base.sha256) for number in numbers}


def logged(champion: int, previous: int | None = None, event: int = 1, **more: Any) -> Desired:
    """What the log says of a name, whose versions can all be had."""
    trail = (champion,) if previous is None else (previous, champion)
    release = Release(champion, trail, generation=event, head=event, **more)
    return Desired(release, versions(*trail, *release.weights, *release.shadow))


def replica(identity: str, *ready: str, base: Base = BASE) -> Replica:
    return Replica(identity, f"http://{identity}", base.sha256, ready, 8)


def routes_of(desired: dict[str, Desired], *replicas: Replica, generation: int = 0) -> Routes:
    planned = plan(None, desired, replicas, BASES, {})
    assert planned.problems == {}
    return replace(planned.routes, generation=generation)


BEFORE = routes_of({"bot": logged(1)}, replica("one", "bot-v1"), replica("two", "bot-v1"), generation=3)


def after(before: Routes | None, desired: Desired, *replicas: Replica, **more: Any) -> Plan:
    return plan(before, {"bot": desired}, replicas, more.get("bases", BASES), more.get("overrides", {}))


def test_a_name_moves_only_when_every_replica_has_the_version() -> None:
    two = logged(2, 1, event=2)
    half = after(BEFORE, two, replica("one", "bot-v1", "bot-v2"), replica("two", "bot-v1"))
    assert half.routes.names == BEFORE.names and half.routes.generation == 3
    assert "v2 is the champion and is not ready on every replica; v1 gets the traffic" in half.problems["bot"][0]
    both = after(BEFORE, two, replica("one", "bot-v1", "bot-v2"), replica("two", "bot-v2"))
    on = both.routes.names["bot"]
    assert (on.champion, on.previous, on.event, sorted(on.versions)) == (2, 1, 2, ["1", "2"]) and both.problems == {}


def test_replicas_of_another_base_do_not_hold_a_name_back() -> None:
    planned = after(BEFORE, logged(2, 1), replica("one", "bot-v2"), replica("else", base=OTHER))
    assert planned.routes.names["bot"].champion == 2
    assert not servable([replica("else", "bot-v2", base=OTHER)], "bot", 2, versions(2)[2])


def test_what_nobody_serves_is_not_held_on_to() -> None:
    """The champion of the log is routed though it is not ready, where the old one is not either."""
    planned = after(BEFORE, logged(2, 1, event=2), replica("one"), replica("two"))
    assert planned.routes.names["bot"].champion == 2
    assert planned.problems["bot"] == ("v2 is the champion and is not ready on every replica",)


def test_a_champion_that_cannot_be_had_leaves_everything_as_it_is() -> None:
    lost = Desired(Release(2, (1, 2), generation=2), versions(1), ("bot v2 cannot be served: its files are gone",))
    planned = after(BEFORE, lost, replica("one"))
    assert planned.routes.names == BEFORE.names
    assert "files are gone" in planned.problems["bot"][0] and "v1 gets the traffic" in planned.problems["bot"][1]
    assert "nobody gets the traffic" in after(None, lost).problems["bot"][1]


@pytest.mark.parametrize("kind", ["weights", "shadow"])
def test_an_arm_that_is_not_ready_is_left_out_and_stays_to_be_loaded(kind: str) -> None:
    canary = logged(1, event=2, **{kind: {2: 5.0}})
    unready = after(BEFORE, canary, replica("one", "bot-v1", "bot-v2"), replica("two", "bot-v1"))
    on = unready.routes.names["bot"]
    assert getattr(on, kind) == {} and on.champion == 1 and sorted(on.versions) == ["1", "2"]
    assert unready.problems["bot"] == ("v2 is to get traffic and is not ready on every replica",)
    ready = after(unready.routes, canary, replica("one", "bot-v1", "bot-v2"), replica("two", "bot-v1", "bot-v2"))
    assert getattr(ready.routes.names["bot"], kind) == {"2": 5.0} and ready.problems == {}


def test_a_schedule_says_whether_the_api_key_decides() -> None:
    canary = logged(1, event=2, weights={2: 5.0}, schedule={"sticky": "key"})
    assert after(BEFORE, canary, replica("one", "bot-v1", "bot-v2")).routes.names["bot"].sticky_by_key
    assert not BEFORE.names["bot"].sticky_by_key


def test_names_that_the_log_does_not_speak_of_stay() -> None:
    planned = plan(BEFORE, {"new": logged(1)}, [replica("one", "bot-v1", "new-v1")], BASES, {})
    assert list(planned.routes.names) == ["bot", "new"] and planned.routes.names["bot"] == BEFORE.names["bot"]
    assert plan(BEFORE, {}, BEFORE.replicas, {}, {}).routes == BEFORE


def test_the_latest_release_stands_last() -> None:
    both = routes_of({"bot": logged(1), "late": logged(1)}, replica("one", "bot-v1", "late-v1", "bot-v2"))
    assert list(both.names) == ["bot", "late"]
    moved = after(both, logged(2, 1, event=2), *both.replicas)
    assert list(moved.routes.names) == ["late", "bot"]
    # What is no new champion changes no order: a canary, or the same log again.
    stepped = after(both, logged(1, event=2, weights={2: 5.0}), *both.replicas)
    assert list(stepped.routes.names) == ["bot", "late"]


def test_an_override_stays_until_the_log_has_it() -> None:
    routes = routes_of({"bot": logged(2, 1, weights={3: 5.0})}, replica("one", "bot-v1", "bot-v2", "bot-v3"))
    switched = replace(routes, names={"bot": overridden(routes.names["bot"], OVERRIDE)})
    on = switched.names["bot"]
    assert (on.champion, on.previous, on.weights, on.override) == (1, None, {}, "id")
    kept = after(switched, logged(2, 1), *routes.replicas, overrides={"bot": OVERRIDE})
    assert kept.routes == switched and "not in the release log yet" in kept.problems["bot"][0]
    # Once the journal is empty the log decides again, and it holds the rollback.
    settled = after(switched, logged(1, event=2), *routes.replicas)
    assert settled.routes.names["bot"].champion == 1 and settled.routes.names["bot"].override == ""


def test_bases_stay_known_as_long_as_they_are_used() -> None:
    known = {**BASES, OTHER.sha256: OTHER}
    first = after(None, logged(1), replica("one", "bot-v1"), bases=known)
    assert first.routes.bases == BASES
    # The base of a version that is routed, though no replica serves it and nobody names it any more.
    alone = after(first.routes, logged(1), bases={})
    assert alone.routes.bases == BASES
    two = after(first.routes, logged(1), replica("one", "bot-v1"), replica("else", base=OTHER), bases=known)
    assert two.routes.bases == known


def test_everything_that_the_log_names_is_to_be_loaded() -> None:
    wanted = target(BEFORE, {"bot": logged(2, 1, weights={3: 5.0}, shadow={4: 1.0})})
    assert [each.served_name for each in routed(wanted)] == ["bot-v2", "bot-v3", "bot-v4", "bot-v1"]
    lost = Desired(Release(2, (1, 2)), versions(1))
    assert target(BEFORE, {"bot": lost}).names == BEFORE.names and target(None, {"bot": lost}).names == {}
    assert target(BEFORE, {"bot": logged(2, 1)}, {"bot": OVERRIDE}).names == BEFORE.names


def test_only_a_champion_that_can_be_had_makes_a_route() -> None:
    on = after(None, logged(1, event=4), replica("one", "bot-v1")).routes.names["bot"]
    assert on == NameRoutes(1, {"1": versions(1)[1]}, event=4)


def test_what_was_read_before_a_later_switch_changes_nothing() -> None:
    one_ready = [replica("one", "bot-v1", "bot-v2")]
    later = after(BEFORE, logged(2, 1, event=2), *one_ready).routes
    stale = after(later, logged(1, event=1), *one_ready)
    assert stale.routes == later and "v2 gets the traffic since event 2" in stale.problems["bot"][0]


def test_a_replica_that_was_just_started_takes_nothing_away() -> None:
    canary = logged(1, event=2, weights={2: 5.0})
    full, empty = replica("one", "bot-v1", "bot-v2"), replica("two")
    shared = after(BEFORE, canary, full).routes
    assert after(shared, canary, full, empty).routes.names == shared.names
    # Nor does it let a new champion in that nobody has.
    waits = after(shared, logged(3, 1, event=3), full, empty)
    assert waits.routes.names == shared.names and "v1 gets the traffic" in waits.problems["bot"][0]
