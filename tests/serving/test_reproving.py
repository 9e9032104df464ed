# ruff: noqa: F401, F811  (fixtures of another folder are imported by name)
"""What another build of the engine has proven is proven again, while it serves."""

from dataclasses import replace

import pytest

from registry.versions import Version
from serving.evidence import keep_evidence
from serving.reconciler_process import start_reconciler
from serving.records import Engine, set_role
from serving.releasing import promote
from serving.reproving import Reprover
from serving.status import compare
from tests.registry.conftest import client, home, migrated, no_registry_of_the_users
from tests.registry.material import NAME
from tests.serving.proofs import EVIDENCE
from tests.serving.yard import Yard, control, prove, wait_until, yard
from turnout.errors import Refused

OLDER = "vllm 0.0 of yesterday"


def stale_version(yard: Yard, weights: bytes) -> Version:
    """One that the engine's build before this one has proven."""
    version = yard.make(weights, proven=False)
    prove(yard.home, version, yard.base, OLDER)
    keep_evidence(yard.home, version.manifest.adapter_sha256, yard.base.sha256, EVIDENCE)
    return version


@pytest.fixture
def engine(yard: Yard) -> Engine:
    """Serves v1, which an older build has proven."""
    engine = yard.engine()
    yard.serve(stale_version(yard, b"one"))
    return engine


def shown(yard: Yard) -> str:
    """The champion's proof, as `turnout status` shows it."""
    (row,) = compare(yard.home, NAME)["adapters"]
    return next(str(each["proof"]) for each in row["served"] if each["version"] == row["champion"])


def test_the_champion_serves_on_and_is_proven_again(yard: Yard, engine: Engine) -> None:
    assert shown(yard) == "stale" and yard.replica(engine).ready == ("incident-bot-v1",)
    assert "the reconciler proves it again" in str(compare(yard.home, NAME)["adapters"][0]["problems"])
    reprover = Reprover(yard.home)
    due = reprover.find_due()
    assert due and due.routed.served_name == "incident-bot-v1"
    reprover.prove(due)
    assert shown(yard) == "proven" and reprover.find_due() is None and reprover.tend() == {}


def test_nothing_else_is_switched_to_before_it_is_proven(yard: Yard, engine: Engine) -> None:
    stale_version(yard, b"two")
    with pytest.raises(Refused, match="its proof is stale"):
        promote(yard.home, NAME, 2)
    assert yard.release().champion == 1


def test_the_reconcilers_process_does_it(yard: Yard, engine: Engine) -> None:
    yard.gateway()
    start_reconciler(yard.home, follow_log=True)
    wait_until(lambda: shown(yard) == "proven", "it is proven again", 30)
    assert compare(yard.home, NAME)["in_sync"] and yard.ask().json()["model"] == "incident-bot-v1"


def test_a_failure_is_told_and_traffic_stays(yard: Yard, engine: Engine) -> None:
    control(engine, nats=5.0)
    reprover = Reprover(yard.home)
    due = reprover.find_due()
    assert due
    reprover.prove(due)
    (told,) = reprover.tend()[NAME]
    assert "incident-bot-v1 is not proven on vllm 0" in told and "fails the proof by its parity" in told
    assert "Its traffic stays, and it is proven again 60 s after that" in told
    assert reprover.find_due() is None and shown(yard) == "stale"
    reprover.prove(due)
    assert "120 s after that" in reprover.tend()[NAME][0]
    assert yard.run().problems == {} and yard.replica(engine).ready == ("incident-bot-v1",)
    # Once proven, by whomever, there is nothing more to tell.
    control(engine)
    reprover.prove(due)
    assert reprover.tend() == {} and shown(yard) == "proven"


def test_it_waits_for_releases_and_can_be_turned_off(yard: Yard, engine: Engine) -> None:
    reprover = Reprover(yard.home)
    set_role(yard.home, engine, "draining")
    assert reprover.find_due() is None
    set_role(yard.home, replace(engine, config=engine.config.model_copy(update={"reprove": False})), "serving")
    assert reprover.find_due() is None
    set_role(yard.home, engine, "serving")
    assert reprover.find_due()
    yard.make(b"two")
    promote(yard.home, NAME, 2, canary=20)
    assert reprover.find_due() is None


def test_without_evidence_nothing_is_due(yard: Yard) -> None:
    yard.engine()
    one = yard.make(b"one", proven=False)
    prove(yard.home, one, yard.base, OLDER)
    yard.serve(one)
    assert shown(yard) == "stale" and Reprover(yard.home).find_due() is None
