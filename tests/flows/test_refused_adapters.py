"""Candidates with one thing wrong each, through the pipeline's last steps: refused for that alone; a sound one passes.

Nothing that happens to them moves the champion's traffic.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from registry.versions import get_version
from serving.releasing import rollback
from tasks.bases import parity_folder, resolve_base
from tests.conftest import PipelineRun
from tests.flows.spoiling import (
    broken_settings,
    cut_off,
    edited,
    flip_a_bit,
    half_of_the_layers,
    of_a_narrower_base,
    one_nan,
    renamed_modules,
    without_ends,
)
from tests.flows.workbench import NAME, Candidate, Workbench, build_workbench
from turnout.digests import ADAPTER_FILES
from turnout.errors import ArtifactDamaged, EngineError

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def bench(pipeline_run: PipelineRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    assert pipeline_run.turnout("up", "--json").code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNOUT_HOME", str(pipeline_run.turnout.home.root))
        yield build_workbench(pipeline_run, tmp_path_factory.mktemp("bench"))


@pytest.fixture
def candidate(bench: Workbench, tmp_path: Path) -> Candidate:
    return bench.candidate(tmp_path / "adapter")


@pytest.fixture
def untouched(bench: Workbench) -> Iterator[None]:
    """The champion's traffic, the release log and what the engine holds are afterwards what they were."""
    standing, loaded = bench.standing(), bench.loaded()
    yield
    assert (bench.standing(), bench.loaded()) == (standing, loaded)


@dataclass(frozen=True)
class Bad:
    """What is wrong, the rules that must fail, and the words of the reason."""

    make: Callable[[Workbench, Candidate], Candidate]
    rules: set[str]
    words: str


PROOF = {"proof"}
BAD: dict[str, Bad] = {
    "without effect": Bad(lambda _, it: it.louder(0), PROOF, r"by its effect: .* the adapter does nothing"),
    "other weights than were scored": Bad(lambda _, it: it.louder(1.5), PROOF, r"its parity: its loss is .* trained"),
    "half of the layers lost": Bad(lambda _, it: half_of_the_layers(it), PROOF, r"by its parity: its loss is"),
    "alpha changed": Bad(lambda _, it: it.with_settings(lora_alpha=64), PROOF, r"alpha is 64 here and 32"),
    "rank unlike its settings": Bad(lambda _, it: it.with_settings(r=8), PROOF, "rank is 8 here and 16 in its manif"),
    "DoRA": Bad(lambda _, it: it.with_settings(use_dora=True), PROOF, "refuses to load .* not yet support DoRA"),
    "trained embeddings": Bad(
        lambda _, it: it.with_settings(modules_to_save=["embed_tokens"]), PROOF, "Unsupported modules_to_save"
    ),
    "trained biases": Bad(lambda _, it: it.with_settings(bias="all"), PROOF, "Adapter bias is not supported"),
    "modules of another model": Bad(lambda _, it: renamed_modules(it), PROOF, "no_such_proj"),
    "shapes of another model": Bad(lambda _, it: of_a_narrower_base(it), PROOF, r"by its (effect|parity): "),
    "weights cut off": Bad(lambda _, it: cut_off(it), PROOF, "not a whole safetensors file"),
    "a weight that is NaN": Bad(lambda _, it: one_nan(it), PROOF, r"1 of 24,576 numbers of .*layers\.3\..* NaN"),
    "settings that are no JSON": Bad(lambda _, it: broken_settings(it), PROOF, "adapter_config.json is no JSON obj"),
    "answers that do not end": Bad(
        lambda _, it: without_ends(it.louder(0.99), "train", "validation"),
        {"proof", "contract"},
        "by its template: answers end with the token",
    ),
    "training answers that do not end": Bad(
        lambda _, it: without_ends(it, "train"), {"contract"}, r"\d+ training and 0 validation rows' answers do not end"
    ),
    "no better than the base": Bad(
        lambda bench, it: bench.measured(it.louder(-0.1)).as_first().with_gate(stop_rate=None),
        {"better_than_base"},
        r"must be over 0\.0000",
    ),
    "worse than the champion": Bad(
        lambda bench, it: bench.measured(it.louder(0.5)).with_gate(stop_rate=None),
        {"not_worse_than_champion"},
        r"against the champion's \d\.\d+: \+.* worse; at most",
    ),
    "answers that go on and on": Bad(
        lambda bench, it: bench.measured(it.louder(0.1)).as_first().with_gate(stop_rate=0.8),
        {"stop_rate"},
        "answers on the engine ended by themselves, at least 80%",
    ),
    "answers in another form": Bad(
        lambda _, it: it.with_gate(format={"regex": "^Ursache: "}), {"format"}, "have the format, at least 100%"
    ),
    "answers unlike the expected": Bad(
        lambda _, it: it.with_gate(metrics={"exact_match": 0.9}), {"exact_match"}, r"at least 0\.900 wanted"
    ),
    "not better than the champion by a margin": Bad(
        lambda _, it: it.with_gate(better_than_champion_by=0.1), {"better_than_champion"}, r"must be over 0\.1000"
    ),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_it_is_refused_for_its_own_reason(bench: Workbench, candidate: Candidate, untouched: None, bad: Bad) -> None:
    refuse(bench, bad.make(bench, candidate), bad.rules, bad.words)


def refuse(bench: Workbench, it: Candidate, rules: set[str], words: str) -> None:
    version = bench.register(it)
    verdict = bench.judge(it, version, bench.deploy(it, version))
    assert {rule.name for rule in verdict.rules if not rule.passed} == rules, verdict.reason
    assert re.search(words, verdict.reason), verdict.reason
    kept = get_version(bench.client, NAME, version.number)
    assert kept.tags["refused"] == verdict.reason and kept.manifest.gate == verdict.rules


def test_one_of_another_chat_template(
    bench: Workbench, candidate: Candidate, untouched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TURNOUT_CACHE", str(cache))
    base = resolve_base(str(edited(Path(candidate.base.path), cache / "base")))
    edited(Path(bench.engine.base.path), parity_folder(base))
    refuse(bench, replace(candidate.louder(0.98), base=base), PROOF, "by its template: .* they differ from position")


def test_one_of_another_base(bench: Workbench, candidate: Candidate, untouched: None) -> None:
    it = candidate.louder(0.97)
    version = bench.register(replace(it, base=replace(it.base, sha256="9" * 64)))
    verdict = bench.judge(it, version, bench.deploy(it, version))
    assert [rule.name for rule in verdict.rules if not rule.passed] == ["proof"]
    assert "base_sha256 is" in verdict.reason and f"'{'9' * 64}' in its manifest" in verdict.reason


def test_one_that_the_engine_has_no_room_for(bench: Workbench, candidate: Candidate, untouched: None) -> None:
    wide = candidate.with_settings(r=64).as_trained(rank=64)
    version = bench.register(wide)
    with pytest.raises(EngineError, match="takes adapters up to rank 16, and this one has rank 64"):
        bench.deploy(wide, version)


def test_one_that_was_changed_after_its_training(bench: Workbench, candidate: Candidate, untouched: None) -> None:
    it = candidate.louder(0.96)
    flip_a_bit(it.weights)
    with pytest.raises(ArtifactDamaged, match="something changed the files after training"):
        bench.register(it)


def test_one_that_was_changed_in_the_registry(bench: Workbench, candidate: Candidate, untouched: None) -> None:
    it = candidate.louder(0.95)
    version = bench.register(it)
    flip_a_bit(Path(version.source.removeprefix("file://")) / ADAPTER_FILES[1])
    with pytest.raises(ArtifactDamaged, match="in the registry is not what was registered"):
        bench.deploy(it, version)


def test_a_sound_one_passes_every_rule_but_not_once_it_was_rolled_back(bench: Workbench, candidate: Candidate) -> None:
    version = bench.register(candidate)
    served = bench.deploy(candidate, version)
    verdict = bench.judge(candidate, version, served)
    assert verdict.passed and verdict.reason == ""
    assert {rule.name for rule in verdict.rules} >= {"better_than_base", "proof", "contract", "stop_rate"}
    assert bench.standing().answers_as == version.served_name
    back = rollback(bench.home, NAME)
    assert (back.before, back.to) == (version.number, 1)
    standing = bench.standing()
    again = bench.judge(candidate, version, bench.deploy(candidate, version))
    assert [rule.name for rule in again.rules if not rule.passed] == ["not_rolled_back"]
    assert bench.standing() == standing and standing.answers_as == f"{NAME}-v1"
