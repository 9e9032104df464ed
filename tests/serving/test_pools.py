# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""Two kinds of engine serve one base, each as a pool of its own; processes, routes and gateways are real."""

from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from registry.versions import Version
from serving.engine_life import stop_engine, wait_ready
from serving.engines import launch_prover, remembered, start_engine
from serving.fit import check_place
from serving.kinds import ANY_RANK
from serving.placement import loaded_adapters
from serving.proofs import kept_proof, kept_refusal, proof_state
from serving.proving import quiet_engine
from serving.records import Engine, running_engines, serving_engines, set_role
from serving.refilling import refill, revive
from serving.releasing import promote, rollback
from serving.reproving import Reprover
from serving.routes import Replica
from serving.stack import up
from serving.status import compare
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.proofs import EVIDENCE, deploy
from tests.serving.yard import LISTENER, Yard, control, kill, names, prove, settings, wait_until, yard
from turnout.errors import EngineError, ProofFailed, Refused

pytestmark = pytest.mark.slow


@dataclass
class Pools:
    """A yard with an engine of each kind."""

    yard: Yard
    vllm: Engine
    llama: Engine

    def make(self, weights: bytes, on: tuple[str, ...] = ("vllm", "llama_cpp"), name: str = NAME) -> Version:
        """A version that was proven on those kinds of engine."""
        version = self.yard.make(weights, name, proven=False)
        for engine in (self.vllm, self.llama):
            if engine.kind in on:
                prove(self.yard.home, version, self.yard.base, engine.build)
        return version

    def ready(self) -> dict[str, tuple[str, ...]]:
        return {replica.kind: replica.ready for replica in self.yard.routes().replicas}


def both(**more: object) -> dict[str, object]:
    return {"engines": ("vllm", "llama_cpp"), "llama_cpp": {"command": LISTENER, "parallel": 3}, **more}


@pytest.fixture
def pools(yard: Yard) -> Pools:
    yard.config = settings(**both())
    return started(yard)


def started(yard: Yard) -> Pools:
    vllm, llama = (start_engine(yard.home, yard.base, yard.config, 8, kind=kind) for kind in yard.config.engines)
    yard.build = vllm.build
    return Pools(yard, vllm, llama)


def roles(yard: Yard) -> set[tuple[str, str]]:
    return {(engine.kind, engine.role) for engine in running_engines(yard.home)}


def test_each_kind_has_its_own_port_limits_and_figures(pools: Pools) -> None:
    vllm, llama, port = pools.vllm, pools.llama, pools.yard.config.port
    assert urlsplit(vllm.url).port == port != urlsplit(llama.url).port
    assert (vllm.id, llama.id) == (f"vllm-{port}", f"llama_cpp-{urlsplit(llama.url).port}")
    assert (vllm.max_lora_rank, llama.max_lora_rank) == (8, ANY_RANK)
    assert llama.build.startswith("llama_cpp ") and "f16" in llama.build and llama.pool != vllm.pool
    pools.yard.serve(pools.make(b"one"))
    told = {each.kind: each.concurrent for each in pools.yard.routes().replicas}
    assert told == {"vllm": 128, "llama_cpp": 3}
    # Both are found again, and what does not suit one kind says nothing of the other.
    again = [start_engine(pools.yard.home, pools.yard.base, pools.yard.config, 8, kind=e.kind) for e in (vllm, llama)]
    assert again == [vllm, llama]
    coarse = settings(port=port, **both(llama_cpp={"command": LISTENER, "quantisation": "Q4_0"}))
    check_place(pools.yard.home, coarse, 8)
    with pytest.raises(EngineError, match=r"computes on .*f16, and .*Q4_0 is wanted"):
        start_engine(pools.yard.home, pools.yard.base, coarse, 8, kind="llama_cpp")


def test_a_release_reaches_both_pools(pools: Pools) -> None:
    one, two = pools.make(b"one"), pools.make(b"two")
    pools.yard.serve(one)
    switch = promote(pools.yard.home, NAME, two.number)
    assert switch.loaded_now and names(pools.vllm) == names(pools.llama) == [one.served_name, two.served_name]
    assert pools.ready() == dict.fromkeys(("vllm", "llama_cpp"), (one.served_name, two.served_name))
    assert rollback(pools.yard.home, NAME).to == one.number and compare(pools.yard.home, NAME)["in_sync"]


def test_what_one_kind_has_not_proven_it_does_not_serve(pools: Pools) -> None:
    one, two = pools.make(b"one"), pools.make(b"two", on=("vllm",))
    pools.yard.serve(one)
    assert promote(pools.yard.home, NAME, two.number).to == two.number
    outcome = pools.yard.run()
    assert f"{two.served_name} gets no traffic on {pools.llama.id}" in str(outcome.problems)
    assert pools.ready() == {"vllm": (one.served_name, two.served_name), "llama_cpp": (one.served_name,)}
    assert names(pools.llama) == [one.served_name]
    (row,) = compare(pools.yard.home, NAME)["adapters"]
    assert row["in_sync"] and f"v2 gets no traffic on {pools.llama.id}" in str(row["problems"])
    left_out = next(each for each in row["served"] if each["kind"] == "llama_cpp" and each["version"] == 2)
    assert (left_out["loaded"], left_out["proof"], left_out["traffic"]) == (False, "elsewhere", 0.0)


def test_at_a_first_release_an_unproven_kind_gets_nothing(pools: Pools) -> None:
    one = pools.make(b"one", on=("llama_cpp",))
    pools.yard.serve(one)
    assert pools.ready() == {"vllm": (), "llama_cpp": (one.served_name,)}
    assert pools.yard.reconciler.prepare(NAME, one.number) == []
    three = pools.make(b"three", on=())
    with pytest.raises(Refused, match="not proven on vllm"):
        pools.yard.reconciler.prepare(NAME, three.number)


def test_the_first_kind_decides_and_another_that_fails_holds_nothing_up(pools: Pools) -> None:
    one, two, three = (pools.make(weights) for weights in (b"one", b"two", b"three"))
    pools.yard.serve(one)
    control(pools.llama, refusing=[two.served_name])
    assert promote(pools.yard.home, NAME, two.number).to == two.number
    assert f"{two.served_name} is not served" in str(pools.yard.run().problems)
    assert pools.ready() == {"vllm": (one.served_name, two.served_name), "llama_cpp": (one.served_name,)}
    assert not compare(pools.yard.home, NAME)["in_sync"]
    control(pools.llama)
    assert pools.yard.run().problems == {} and compare(pools.yard.home, NAME)["in_sync"]
    control(pools.vllm, refusing=[three.served_name])
    with pytest.raises(EngineError, match="refuses to load"):
        promote(pools.yard.home, NAME, three.number)
    assert pools.yard.release().champion == two.number


@pytest.mark.parametrize("lost", ["vllm", "llama_cpp"])
def test_with_one_kind_down_the_other_serves(pools: Pools, lost: str) -> None:
    one, two = pools.make(b"one"), pools.make(b"two")
    pools.yard.serve(one, two)
    pools.yard.gateway()
    dead, left = (pools.vllm, pools.llama) if lost == "vllm" else (pools.llama, pools.vllm)
    kill(dead.pid)
    pools.yard.run()
    assert [replica.id for replica in pools.yard.routes().replicas] == [left.id]
    assert pools.yard.ask().json()["model"] == two.served_name
    assert promote(pools.yard.home, NAME, one.number).to == one.number
    assert promote(pools.yard.home, NAME, two.number).to == two.number
    assert rollback(pools.yard.home, NAME, emergency=True).to == one.number
    assert pools.yard.ask().json()["model"] == one.served_name
    # It comes back where it was, and a pass while it is empty takes nothing away.
    assert f"the engine {dead.id} died and is started again" in revive(pools.yard.home)
    assert pools.yard.ask().json()["model"] == one.served_name
    wait_until(lambda: pools.yard.run().problems == {} and len(pools.ready()) == 2, "both serve")
    assert one.served_name in pools.ready()[lost]


def test_successors_replace_engines_of_their_own_kind(yard: Yard) -> None:
    yard.config = settings(**both(mode="restart"))
    pools = started(yard)
    one = pools.make(b"one")
    yard.serve(one)
    two = yard.make(b"two", rank=16, proven=False)
    for engine in (pools.vllm, pools.llama):
        prove(yard.home, two, yard.base, engine.build)
    promote(yard.home, NAME, two.number)
    # llama.cpp takes every rank, so only vLLM needs a successor.
    assert roles(yard) == {("vllm", "serving"), ("llama_cpp", "serving")}
    assert yard.run().problems == {} and not pools.vllm.alive and pools.llama.alive
    assert pools.ready() == dict.fromkeys(("vllm", "llama_cpp"), (one.served_name, two.served_name))
    coarse = yard.config.model_copy(
        update={"llama_cpp": yard.config.llama_cpp.model_copy(update={"quantisation": "Q8_0"})}
    )
    joining = start_engine(yard.home, yard.base, coarse, 8, kind="llama_cpp", beside=True)
    assert joining.role == "joining" and joining.build != pools.llama.build
    stop_engine(yard.home, joining)


def test_a_pool_is_filled_up_to_its_own_number(yard: Yard) -> None:
    yard.config = settings(**both(llama_cpp={"command": LISTENER, "replicas": 2}))
    pools = started(yard)
    yard.serve(pools.make(b"one"))
    assert refill(yard.home) == []
    wait_until(lambda: yard.run().problems == {} and len(yard.routes().replicas) == 3, "all serve")
    assert refill(yard.home) == []
    assert sorted(replica.kind for replica in yard.routes().replicas) == ["llama_cpp", "llama_cpp", "vllm"]


def test_a_proof_is_made_on_an_engine_of_the_same_kind(pools: Pools) -> None:
    prover = wait_ready(pools.yard.home, launch_prover(pools.yard.home, pools.llama), 30)
    assert (prover.kind, prover.build, prover.role) == ("llama_cpp", pools.llama.build, "proving")
    stop_engine(pools.yard.home, prover)
    pools.yard.serve(pools.make(b"one"))
    pools.yard.gateway()
    # The other pool has all that this engine serves, and is no stand-in for it.
    with pools.yard.held_request(pools.vllm), quiet_engine(pools.yard.home, pools.vllm) as place:
        assert place.role == "proving" and place.kind == "vllm"


def test_a_kind_that_joins_later_is_proven_by_the_reconciler(pools: Pools) -> None:
    one = pools.make(b"one", on=())
    deploy(pools.yard, pools.vllm, one)
    pools.yard.serve(one)
    assert pools.ready() == {"vllm": (one.served_name,), "llama_cpp": ()}
    due = Reprover(pools.yard.home).find_due()
    assert due and due.engine.id == pools.llama.id
    Reprover(pools.yard.home).prove(due)
    assert Reprover(pools.yard.home).find_due() is None
    assert pools.yard.run().problems == {} and set(pools.ready().values()) == {(one.served_name,)}


def test_a_refused_proof_is_kept_and_not_repeated(pools: Pools) -> None:
    one = pools.make(b"one", on=())
    deploy(pools.yard, pools.vllm, one)
    control(pools.llama, nats=1.5)
    with pytest.raises(ProofFailed, match="parity"):
        deploy(pools.yard, pools.llama, one)
    pools.yard.serve(one)
    assert Reprover(pools.yard.home).find_due() is None
    identity = (one.manifest.adapter_sha256, pools.yard.base.sha256, pools.llama.build)
    assert kept_refusal(pools.yard.home, *identity) and proof_state(pools.yard.home, *identity) == "elsewhere"
    (row,) = compare(pools.yard.home, NAME)["adapters"]
    assert row["in_sync"] and f"v1 gets no traffic on {pools.llama.id}: " in str(row["problems"])
    assert "parity" in str(row["problems"])
    control(pools.llama)
    assert deploy(pools.yard, pools.llama, one).proven_now and kept_refusal(pools.yard.home, *identity) is None
    assert pools.yard.run().problems == {}


def test_up_starts_every_kind_and_remembers_them(yard: Yard) -> None:
    config = settings(**both())
    stack = up(yard.home, config, lambda: yard.base)
    assert [engine.kind for engine in stack.engines] == ["vllm", "llama_cpp"] and stack.problems == ()
    assert remembered(yard.home) == config
    again = up(yard.home, config, lambda: yard.base)
    assert again.engines == stack.engines


def test_without_its_second_kind_up_serves_with_the_first(yard: Yard) -> None:
    config = settings(**both(llama_cpp={"command": [*LISTENER, "--crash"]}))
    stack = up(yard.home, config, lambda: yard.base)
    assert [engine.kind for engine in stack.engines] == ["vllm"] and "the weights are broken" in stack.problems[0]


def test_one_kind_alone_takes_the_port(yard: Yard) -> None:
    yard.config = settings(engines=["llama_cpp"], llama_cpp={"command": LISTENER})
    engine = yard.engine()
    assert engine.id == f"llama_cpp-{yard.config.port}" and serving_engines(yard.home) == [engine]
    yard.serve(yard.make(b"one"))
    two = yard.make(b"two", rank=64)
    assert promote(yard.home, NAME, two.number).to == two.number and yard.routes().replicas[0].kind == "llama_cpp"
    assert [each["kind"] for each in compare(yard.home, NAME)["adapters"][0]["served"]] == ["llama_cpp", "llama_cpp"]
