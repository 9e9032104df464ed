"""The main flow: a dataset becomes a proven adapter version that serves traffic."""

from typing import Any

from prefect import flow

from flows.checking import check
from flows.presets.loading import load_preset
from tasks import stages
from tasks.approval import A_DAY_S, decide
from tasks.bases import resolve_base
from tasks.progress import watched
from tasks.steps import find_champion


@flow(name="pipeline")
def pipeline(
    preset: str = "tiny-cpu",
    overrides: list[str] | None = None,
    promote: bool = True,
    approval_timeout_s: int = A_DAY_S,
) -> dict[str, Any]:
    """Train, score, register, deploy, judge and release one adapter version.

    Args:
        preset: a preset's name, or the path of a YAML file on the machine that runs the flow.
        overrides: settings of the form `train.epochs=3`, applied to the preset in order.
        promote: switch traffic to the version if the gate lets it pass.
        approval_timeout_s: with `gate.approval=required`, the seconds after which nobody is waited for any more.
    """
    config = load_preset(preset, overrides or [])
    check(config)
    with watched() as run:
        base = resolve_base(config.base)
        dataset = stages.prepare(config.data, base)
        adapter = stages.train(config.name, config.train, dataset, base)
        champion = find_champion(config.name, other_than=adapter.adapter_sha256)
        parity = config.serving.base == "parity"
        scores = stages.score(config.score, config.train, dataset, adapter, base, champion, write_parity=parity)
        version = stages.register(config.name, config.label, config.train, dataset, adapter, scores, base)
        served = stages.deploy(config.serving, config.train, config.score, version, dataset, scores, base)
        verdict = stages.gate(config.gate, version, dataset, scores, served, champion)
        decision = decide(config.gate, version, verdict, promote, approval_timeout_s)
        switch = stages.release(version, served, decision.verdict, champion, decision.promote)
        return decision.noted(
            stages.publish(dataset, adapter, version, scores, served, decision.verdict, switch, champion, run)
        )
