# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Proofs are made on an engine without traffic; processes, routes and gateway workers are real, figures are not."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from serving.config import ProveOn
from serving.engine_life import wait_ready
from serving.engines import launch_prover
from serving.evidence import Evidence, KeptRow, kept_evidence
from serving.proofs import kept_proof
from serving.records import list_engines, running_engines, serving_engines, set_role
from serving.routes import read_routes
from serving.stack import down
from serving.upkeep import Upkeep
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.serving.proofs import EVIDENCE, QUESTIONS, deploy
from tests.serving.yard import LISTENER, Yard, control, names, settings, wait_until, yard
from turnout.errors import EngineError, ProofFailed
from turnout.files import exclusive


def roles(yard: Yard) -> list[str]:
    return [engine.role for engine in running_engines(yard.home)]


class Watch:
    """What the roles of the engines and the replicas of the routes are while rows are scored."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.seen: list[tuple[list[str], int]] = []

    def __call__(self, text: str, done: float | None, total: float | None) -> None:
        if text.startswith("scoring"):
            routes = read_routes(self.yard.home)
            self.seen.append((roles(self.yard), len(routes.replicas) if routes else 0))


def test_an_engine_without_traffic_is_used_as_it_is(yard: Yard) -> None:
    engine, one = yard.engine(), yard.make(b"one", proven=False)
    watch = Watch(yard)
    placed = deploy(yard, engine, one, progress=watch)
    assert placed.proven_now and placed.proof and placed.proof.difference == pytest.approx(0)
    assert {tuple(each) for each, _ in watch.seen} == {("serving",)} and names(engine) == [one.served_name]
    # What it was proven by is kept without its text.
    kept = kept_evidence(yard.home, one.manifest.adapter_sha256, yard.base.sha256)
    assert kept and kept.rows_sha256 == EVIDENCE.rows_sha256 and kept.probes()[0][1] == [1, 2, 3]


def test_the_answers_are_kept_beside_the_proof(yard: Yard) -> None:
    engine, one = yard.engine(), yard.make(b"one", proven=False)
    first = deploy(yard, engine, one)
    assert [(each.row_sha256, each.text, each.finish_reason) for each in first.answers] == [
        (f"row{i}", one.served_name, "stop") for i in range(3)
    ]
    before = control(engine)
    again = deploy(yard, engine, one)
    # One request more, which is the quick probe.
    assert not again.proven_now and again.answers == first.answers and control(engine) == before + 1
    fewer = deploy(yard, engine, one, replace(EVIDENCE, questions=QUESTIONS[:2]))
    assert not fewer.proven_now and len(fewer.answers) == 2 and control(engine) == before + 4


def test_a_prompt_that_leaves_no_room_is_not_asked(yard: Yard) -> None:
    engine, one = yard.engine(), yard.make(b"one", proven=False)
    long = replace(QUESTIONS[0], prompt_ids=tuple(range(engine.config.max_model_len)))
    assert deploy(yard, engine, one, replace(EVIDENCE, questions=(long,))).answers == ()


def test_a_replica_is_drained_for_a_proof_and_comes_back(yard: Yard) -> None:
    first, second = yard.replicas(2)
    one, two = yard.make(b"one"), yard.make(b"two", proven=False)
    yard.serve(one)
    yard.gateway()
    watch = Watch(yard)
    with yard.held_request(first) as answer, yard.held_request(second) as other, ThreadPoolExecutor(1) as pool:
        proving = pool.submit(deploy, yard, first, two, progress=watch)
        wait_until(lambda: "resting" in roles(yard), "a replica is out of the traffic")
        # Passes of the reconciler leave it there, and start nothing in its place.
        assert Upkeep(yard.reconciler).start_processes() == [] and yard.run().problems == {}
        assert [each.id for each in yard.routes().replicas] == [second.id] and not proving.done()
        control(second)
        assert other.result(10).json()["model"] == one.served_name == yard.ask().json()["model"]
        control(first)
        assert answer.result(10).json()["model"] == one.served_name
        assert proving.result(20).proven_now
    assert watch.seen and all(sorted(each) == ["resting", "serving"] and replicas == 1 for each, replicas in watch.seen)
    assert roles(yard) == ["serving", "serving"] and {each.id for each in yard.routes().replicas} == {
        first.id,
        second.id,
    }
    assert yard.replica(first).ready == (one.served_name,) and yard.run().problems == {}


def test_beside_traffic_an_engine_is_started_for_the_proof(yard: Yard) -> None:
    engine, one, two = yard.engine(), yard.make(b"one"), yard.make(b"two", proven=False)
    yard.serve(one)
    yard.gateway()
    watch = Watch(yard)
    with yard.held_request(engine), ThreadPoolExecutor(1) as pool:
        proving = pool.submit(deploy, yard, engine, two, progress=watch)
        identity = (two.manifest.adapter_sha256, yard.base.sha256, yard.build)
        wait_until(lambda: kept_proof(yard.home, *identity), "it is proven")
        control(engine)
        assert proving.result(20).proven_now
    assert watch.seen and all(each == ["serving", "proving"] and replicas == 1 for each, replicas in watch.seen)
    assert roles(yard) == ["serving"] and names(engine) == [one.served_name, two.served_name]


def test_what_fails_on_the_proving_engine_never_reaches_the_serving_one(yard: Yard) -> None:
    engine, one = yard.engine(), yard.make(b"one", proven=False)
    off = replace(EVIDENCE, trained_nats=1.5)
    with pytest.raises(ProofFailed, match="parity"):
        deploy(yard, engine, one, off, prove_on="separate")
    assert roles(yard) == ["serving"] and names(engine) == []
    assert deploy(yard, engine, one, prove_on="separate").proven_now and names(engine) == [one.served_name]


def test_where_no_second_engine_starts_it_says_so(yard: Yard) -> None:
    port = yard.config.port
    yard.config = settings(port=port, command=[*LISTENER, "--alone", str(port)], prove_on="separate")
    engine, one = yard.engine(), yard.make(b"one", proven=False)
    with pytest.raises(
        EngineError, match=r"(?s)second engine, beside vllm-\d+ .*no room for a second engine"
    ) as refusal:
        deploy(yard, engine, one)
    assert "serving.prove_on=serving" in refusal.value.next_step and roles(yard) == ["serving"]
    assert deploy(yard, engine, one, prove_on="serving").proven_now


def test_what_a_killed_prover_left_is_cleared(yard: Yard) -> None:
    first, second = yard.replicas(2)
    one = yard.make(b"one")
    yard.serve(one)
    prover = wait_ready(yard.home, launch_prover(yard.home, first), 30)
    set_role(yard.home, first, "resting")
    assert yard.run().problems == {} and [each.id for each in yard.routes().replicas] == [second.id]
    upkeep = Upkeep(yard.reconciler)
    with exclusive(yard.home.lock("proving")):  # its prover lives
        assert upkeep.start_processes() == [] and sorted(roles(yard)) == ["proving", "resting", "serving"]
    assert upkeep.start_processes() == [] and roles(yard) == ["serving", "serving"] and not prover.alive
    assert yard.run().problems == {} and len(yard.routes().replicas) == 2
    assert yard.replica(first).ready == (one.served_name,)


def test_a_proving_engine_is_none_that_serves_and_goes_down_with_the_rest(yard: Yard) -> None:
    engine = yard.engine()
    yard.serve(yard.make(b"one"))
    prover = wait_ready(yard.home, launch_prover(yard.home, engine), 30)
    assert yard.run().problems == {} and serving_engines(yard.home) == [engine]
    assert [each.id for each in yard.routes().replicas] == [engine.id]
    assert yard.engine() == engine
    assert prover.pid in down(yard.home) and list_engines(yard.home) == []


@pytest.mark.parametrize("prove_on", ["auto", "separate"])
def test_another_template_and_an_end_that_is_none_are_refused(yard: Yard, prove_on: ProveOn) -> None:
    engine, one = yard.engine(), yard.make(b"one", proven=False)
    other = replace(EVIDENCE, probes=lambda: [([{"role": "user", "content": "hi"}], [1, 2, 4])])
    with pytest.raises(ProofFailed, match=r"template: the engine makes 3 token ids .*differ from position 2"):
        deploy(yard, engine, one, other, prove_on=prove_on)
    assert names(engine) == [] and roles(yard) == ["serving"]


def test_an_engine_that_goes_on_after_the_end_token_is_refused(yard: Yard) -> None:
    engine, one = yard.engine(), yard.make(b"one", proven=False)
    control(engine, endless=True)
    with pytest.raises(ProofFailed, match=r"template: answers end with the token 9 in training.*goes on after it"):
        deploy(yard, engine, one)
    # Where no row ends with an answer's token there is nothing to stop at.
    cut = Evidence([KeptRow("row", [1, 2, 3], [0, 1, 0])], 1.9, EVIDENCE.probes, 0.02)
    assert deploy(yard, engine, one, cut).proven_now
