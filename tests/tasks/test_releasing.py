# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Release, refusal and what becomes of engines and routes; MLflow is real, the engine only keeps a list."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from registry.adapters import fetch
from registry.releases import append, read_log
from registry.versions import Version, get_version
from serving.config import ServingConfig
from serving.reconciling import Reconciler
from serving.records import Engine, running_engines
from serving.routes import read_routes
from serving.stack import down
from tasks.config import GateConfig
from tasks.deploying import Place, Served, find_place, put
from tasks.gate import Verdict
from tasks.releasing import Switch, judge_version, release
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.yard import Yard as ServingYard
from tests.serving.yard import known_base, names, settings
from tests.tasks.measured import WELL, measured, prepared
from tests.tasks.versions import EVIDENCE, PASSED, REFUSED, served
from turnout.errors import EngineError, RegistryConflict
from turnout.files import read_state
from turnout.paths import Home


class Yard(ServingYard):
    """With an engine, and the pipeline's stages."""

    def __init__(self, client: MlflowClient, home: Home, root: Path) -> None:
        super().__init__(client, home, settings(), known_base(root))
        self.first = self.engine()

    def deploy(self, version: Version, config: ServingConfig | None = None) -> Served:
        folder = fetch(self.client, version, self.home)
        place = find_place(self.home, self.base, config or self.config, version, folder)
        return self.put(place, version, folder)

    def put(self, place: Place, version: Version, folder: Path) -> Served:
        put(self.home, place, version, folder, EVIDENCE)
        return served(place.engine, folder, place.replaces.id if place.replaces else "")

    def judged(
        self,
        version: Version,
        at: Served,
        verdict: Verdict = PASSED,
        before: Version | None = None,
        promote: bool = True,
    ) -> Switch | None:
        return release(get_version(self.client, version.name, version.number), at, verdict, before, promote)

    def promote(self, version: Version, before: Version | None = None) -> Served:
        at = self.deploy(version)
        assert self.judged(version, at, before=before)
        return at

    def tags(self, version: Version) -> dict[str, str]:
        return get_version(self.client, version.name, version.number).tags


@pytest.fixture
def yard(client: MlflowClient, home: Home, tmp_path: Path) -> Iterator[Yard]:
    yield Yard(client, home, tmp_path)
    down(home)


def ids(engines: list[Engine]) -> list[str]:
    return [engine.id for engine in engines]


def test_a_release_routes_the_version_and_keeps_the_one_before(yard: Yard) -> None:
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.promote(one)
    yard.promote(two, one)
    routes = read_routes(yard.home)
    assert routes and routes.names[NAME].champion == two.number and set(routes.names[NAME].versions) == {"1", "2"}
    again = yard.judged(two, yard.deploy(two))
    assert again and not again.changed and read_routes(yard.home) == routes
    assert yard.tags(two)["served_base_sha256"] == yard.base.sha256


def test_a_refused_champion_keeps_its_traffic(yard: Yard) -> None:
    one = yard.make(b"one")
    at = yard.promote(one)
    routes, events = read_routes(yard.home), len(read_log(yard.client, NAME))
    switch = yard.judged(one, at, REFUSED)
    assert switch and not switch.changed and "stays the champion" in switch.warnings[0]
    assert read_routes(yard.home) == routes and len(read_log(yard.client, NAME)) == events
    assert one.served_name in names(yard.first) and "refused" not in yard.tags(one)


def test_a_refused_version_goes_and_is_marked_until_it_passes(yard: Yard) -> None:
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.promote(one)
    assert yard.judged(two, yard.deploy(two), REFUSED, one) is None
    assert names(yard.first) == [one.served_name] and yard.tags(two)["refused"] == "too far"
    assert get_version(yard.client, two.name, two.number).manifest.gate == REFUSED.rules
    yard.promote(two, one)
    assert "refused" not in yard.tags(two)
    assert get_version(yard.client, two.name, two.number).manifest.gate == PASSED.rules


def test_a_refused_rollback_target_stays_loaded(yard: Yard) -> None:
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.promote(one)
    yard.promote(two, one)
    assert yard.judged(one, yard.deploy(one), REFUSED, two) is None
    assert one.served_name in names(yard.first) and "refused" not in yard.tags(one)


def test_a_successor_has_everything_before_it_takes_over(yard: Yard) -> None:
    one, other, two = yard.make(b"one"), yard.make(b"other", "other"), yard.make(b"two")
    yard.promote(one)
    yard.promote(other)
    config = yard.config.model_copy(update={"mode": "restart", "max_cpu_loras": 8})
    at = yard.deploy(two, config)
    old, new = running_engines(yard.home)
    assert old == yard.first and at.replaces == old.id and at.engine_id == new.id
    assert names(new) == sorted([one.served_name, other.served_name, two.served_name])
    assert names(old) == sorted([one.served_name, other.served_name])
    switch = yard.judged(two, at, before=one)
    assert switch and switch.changed and ids(running_engines(yard.home)) == [new.id]
    routes = read_routes(yard.home)
    assert routes and routes.names[NAME].champion == two.number and "other" in routes.names
    kept = read_state(yard.home.serving, ServingConfig)
    assert kept and kept.max_cpu_loras == 8 and kept.port == yard.config.port
    # Once more: this engine serves it already.
    again = yard.deploy(two, config)
    assert not again.replaces and again.engine_id == new.id and ids(running_engines(yard.home)) == [new.id]


@pytest.mark.parametrize(("verdict", "promote"), [(REFUSED, True), (PASSED, False)])
def test_a_successor_that_gets_no_traffic_is_stopped(yard: Yard, verdict: Verdict, promote: bool) -> None:
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.promote(one)
    at = yard.deploy(two, yard.config.model_copy(update={"mode": "restart"}))
    routes = read_routes(yard.home)
    assert yard.judged(two, at, verdict, one, promote) is None
    assert running_engines(yard.home) == [yard.first] and names(yard.first) == [one.served_name]
    assert read_routes(yard.home) == routes and yard.release().champion == one.number


def test_a_successor_must_take_every_champion(yard: Yard) -> None:
    one, two = yard.make(b"one"), yard.make(b"two")
    at = yard.promote(one)
    folder = Path(at.adapter_folder)
    folder.chmod(0o755)
    shutil.rmtree(folder)
    with pytest.raises(EngineError, match=f"cannot take over {one.served_name}"):
        yard.deploy(two, yard.config.model_copy(update={"mode": "restart"}))
    assert running_engines(yard.home) == [yard.first]


def test_room_is_made_and_the_routes_know(yard: Yard) -> None:
    versions = [yard.make(f"{number}".encode()) for number in range(6)]
    before = None
    for version in versions:
        yard.promote(version, before)
        before = version
    other = yard.make(b"other", "other")
    yard.promote(other)
    assert len(names(yard.first)) <= yard.config.max_cpu_loras
    routes = read_routes(yard.home)
    assert routes
    routed = {f"{name}-v{number}" for name, on in routes.names.items() for number in on.versions}
    assert routed <= set(names(yard.first)) and {"other-v1", versions[-1].served_name} <= routed


def test_a_full_engine_of_champions_says_so(yard: Yard) -> None:
    for number in range(4):
        yard.promote(yard.make(f"{number}".encode(), f"name{number}"))
    with pytest.raises(EngineError, match=r"holds 4 adapters \(serving.max_cpu_loras\), and all of them get traffic"):
        yard.deploy(yard.make(b"fifth"))


def test_a_champion_that_is_gone_gives_way_with_a_warning(yard: Yard) -> None:
    one, two = yard.make(b"one"), yard.make(b"two")
    yard.promote(one)
    yard.client.set_model_version_tag(NAME, str(one.number), "manifest", "{")
    switch = yard.judged(two, yard.deploy(two), before=None)
    assert switch and switch.changed and "nothing was compared with the champion before, v1" in switch.warnings[-1]


def test_a_champion_of_somebody_else_meanwhile_is_a_conflict(yard: Yard) -> None:
    one, two = yard.make(b"one"), yard.make(b"two")
    at = yard.deploy(two)
    append(yard.client, NAME, kind="promote", champion=one.number, parent=0)
    with pytest.raises(RegistryConflict):
        yard.judged(two, at, before=None)
    assert yard.release().champion == one.number and yard.routes().names == {}


def test_a_version_that_left_its_engine_is_not_released(yard: Yard) -> None:
    one = yard.make(b"one")
    folder = fetch(yard.client, one, yard.home)
    with pytest.raises(EngineError, match="no longer loaded"):
        yard.judged(one, served(yard.first, folder))
    assert yard.release().champion is None


def test_a_kept_proof_is_judged_by_the_present_tolerance(yard: Yard) -> None:
    one = yard.make(b"one")
    at = served(yard.first, fetch(yard.client, one, yard.home), difference=0.015, answers=WELL)
    scores, rows = measured(yard.home.root, base=5.2, candidate=1.9), prepared(yard.home.root / "rows")
    assert judge_version(GateConfig(), one, rows, scores, at, None).passed
    strict = judge_version(GateConfig(), one, rows, scores, replace(at, tolerance=0.01), None)
    assert not strict.passed and "0.0150 away" in strict.reason
