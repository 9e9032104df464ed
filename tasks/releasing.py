"""The gate and release stages: the verdict, and traffic for what passed."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from registry.aliases import drop_candidate
from registry.names import called
from registry.releases import Release, fold, read_log
from registry.store import connect
from registry.verdicts import note_gate
from registry.versions import Version, get_version, tag_version
from serving.releasing import Switch, promote
from tasks.config import GateConfig
from tasks.deploying import Served
from tasks.gate import Verdict, judge
from tasks.switching import require_loaded, withdraw
from turnout.errors import ArtifactDamaged, NotFound, RegistryConflict
from turnout.paths import home
from turnout.references import Dataset, Scores

if TYPE_CHECKING:
    from mlflow import MlflowClient


def judge_version(
    config: GateConfig, version: Version, dataset: Dataset, scores: Scores, served: Served, champion: Version | None
) -> Verdict:
    """The gate's verdict on a version that was trained on `dataset` and deployed."""
    release = fold(read_log(connect(home()), version.name))
    return judge(
        config,
        scores,
        served,
        dataset,
        rolled_back=version.number in release.rolled_back,
        champion_base=champion.manifest.base if champion else None,
    )


def release(
    version: Version, served: Served, verdict: Verdict, champion: Version | None, promote_it: bool
) -> Switch | None:
    """Make the version the champion; None where the gate refused it, or nobody wants it promoted yet.

    A present champion stays champion, with its traffic, whatever the verdict.

    Raises:
        EngineError: the version is no longer on its engine.
        RegistryConflict: somebody else released meanwhile; nothing changed.
    """
    here, client = home(), connect(home())
    state = fold(read_log(client, version.name))
    _tag(client, version, served, verdict)
    if not verdict.passed:
        return _refuse(client, version, served, verdict, state)
    if state.champion != version.number and not promote_it:
        withdraw(here, version, served, keep=True)
        return None
    require_loaded(version, served)
    lost = _unreadable_champion(client, version, champion, state)
    compared = state.champion if lost else champion.number if champion else None
    if state.champion not in (version.number, compared):
        raise RegistryConflict(
            f"{version.name} is at {called(state.champion)} now, not at {called(compared)} that v{version.number} "
            "was compared with",
            "Run the same command again: what is done is kept, and the gate compares with the new champion.",
        )
    switch = promote(
        here,
        version.name,
        version.number,
        seen=state,
        keep_arms=True,
        reason=_reason(verdict),
        figures={rule.name: rule.figure for rule in verdict.rules if rule.figure is not None},
    )
    return replace(switch, warnings=(*switch.warnings, *lost))


def _reason(verdict: Verdict) -> str:
    """Why, for the release log: a person's word where one was asked."""
    approval = next((rule.text for rule in verdict.rules if rule.name == "approval"), "")
    return "; ".join(filter(None, ("the pipeline's gate passed it", approval)))


def _tag(client: "MlflowClient", version: Version, served: Served, verdict: Verdict) -> None:
    """Note with the version what was measured, the gate's rules, and on which base it is served: enough to serve it
    again elsewhere."""
    note_gate(client, version, verdict.rules)
    tags: dict[str, Any] = {}
    if served.eval_loss is not None:
        tags = {"served_eval_loss": served.eval_loss, "served_base": served.base.name}
        tags["served_base_sha256"] = served.base.sha256
    if verdict.passed and "refused" in version.tags:
        tags["refused"] = None
    tag_version(client, version.name, version.number, tags)


def _refuse(
    client: "MlflowClient", version: Version, served: Served, verdict: Verdict, state: Release
) -> Switch | None:
    """Keep the version registered with the reason, and take it off the engine; a routed one keeps its place."""
    drop_candidate(client, version.name, version.number)
    withdraw(home(), version, served, keep=version.number in (state.champion, state.previous))
    if version.number == state.champion:
        warning = f"{version.served_name} stays the champion, and the gate refuses it now: {verdict.reason}"
        return Switch(version.name, version.number, version.number, False, 0.0, state.generation, warnings=(warning,))
    if version.number != state.previous:
        tag_version(client, version.name, version.number, {"refused": verdict.reason})
    return None


def _unreadable_champion(
    client: "MlflowClient", version: Version, compared: Version | None, state: Release
) -> tuple[str, ...]:
    """Why nothing was compared with the champion, where it is one that can no longer be read: such a one gives way."""
    if compared is not None or state.champion in (None, version.number):
        return ()
    assert state.champion is not None
    try:
        get_version(client, version.name, state.champion)
    except (NotFound, ArtifactDamaged) as error:
        return (f"nothing was compared with the champion before, v{state.champion}: {error.message}",)
    return ()
