"""The gate and release stages: the verdict, the event in the release log, and the views of it."""

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.aliases import drop_candidate, write_view
from registry.names import called
from registry.releases import Release, append, fold, read_log
from registry.store import connect
from registry.versions import Version, get_version, tag_version
from tasks.config import GateConfig
from tasks.deploying import Served
from tasks.gate import Rule, Verdict, judge
from tasks.switching import require_loaded, switch_over, withdraw
from turnout.errors import ArtifactDamaged, NotFound, RegistryConflict
from turnout.paths import home
from turnout.references import Scores

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True)
class Switch:
    """What a release did. `changed` is false where the version was the champion already.

    `seconds` runs from the append to the last acknowledgement; `pending` names those who have not acknowledged.
    """

    name: str
    before: int | None
    to: int
    changed: bool
    seconds: float
    generation: int
    pending: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def judge_version(
    config: GateConfig, version: Version, scores: Scores, served: Served, champion: Version | None
) -> Verdict:
    """The gate's verdict on a version that was deployed."""
    release = fold(read_log(connect(home()), version.name))
    return judge(
        config,
        scores,
        proof=_proof_rule(served),
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
    loaded = require_loaded(version, served)
    lost = _unreadable_champion(client, version, champion, state)
    switch = promote(
        client,
        version.name,
        version.number,
        expect=state.champion if lost else champion.number if champion else None,
        reason="the pipeline's gate passed it",
        figures={rule.name: rule.figure for rule in verdict.rules if rule.figure is not None},
    )
    switch_over(here, client, version, served, loaded)
    return replace(switch, warnings=(*switch.warnings, *lost))


def promote(
    client: "MlflowClient",
    name: str,
    number: int,
    *,
    expect: int | None,
    reason: str = "",
    figures: dict[str, Any] | None = None,
) -> Switch:
    """Make version `number` the champion of `name`, if `expect` still is the champion (None: there is none).

    Raises:
        RegistryConflict: somebody else released meanwhile; nothing changed.
    """
    found = fold(read_log(client, name))
    if found.champion == number:
        return Switch(
            name, number, number, False, 0.0, found.generation, warnings=tuple(write_view(client, name, found))
        )
    if found.champion != expect:
        raise RegistryConflict(
            f"{name} is at {called(found.champion)} now, not at {called(expect)} that v{number} was compared with",
            "Run the same command again: what is done is kept, and the gate compares with the new champion.",
        )
    started = time.monotonic()
    event = append(
        client, name, kind="promote", champion=number, parent=found.head, reason=reason, figures=figures or {}
    )
    seconds = round(time.monotonic() - started, 3)
    warnings = write_view(client, name, fold(read_log(client, name)))
    return Switch(name, found.champion, number, True, seconds, event.number, warnings=tuple(warnings))


def _proof_rule(served: Served) -> Rule:
    if served.problem or served.difference is None:
        return Rule("proof", False, served.difference, served.tolerance, served.problem or "it was not proven")
    text = (
        f"served eval loss {served.eval_loss:.4f} on {served.base.name} is {served.difference:.4f} away from "
        f"training's, at most {served.tolerance} allowed"
    )
    return Rule("proof", served.difference <= served.tolerance, served.difference, served.tolerance, text)


def _tag(client: "MlflowClient", version: Version, served: Served, verdict: Verdict) -> None:
    """Note with the version what was measured, and on which base it is served: enough to serve it again elsewhere."""
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
