"""The gate and release stages: the verdict, the event in the release log, and the views of it."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.aliases import drop_candidate, write_view
from registry.releases import append, fold, read_log
from registry.store import connect
from registry.versions import Version, get_version, tag_version
from serving.engines import stop_engine
from serving.placement import unload
from serving.records import list_engines
from serving.routes import NameRoutes, RoutedVersion, Routes, read_routes, write_routes
from tasks.config import GateConfig
from tasks.deploying import Served
from tasks.gate import Rule, Verdict, judge
from turnout.errors import RegistryConflict
from turnout.paths import Home, home
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
    """Make the version the champion; None where the gate refused it, or nobody wants it promoted yet."""
    here, client = home(), connect(home())
    current = fold(read_log(client, version.name)).champion
    if served.eval_loss is not None:
        tag_version(
            client,
            version.name,
            version.number,
            {"served_eval_loss": served.eval_loss, "served_base": served.base.name},
        )
    if current != version.number:
        if not verdict.passed:
            _refuse(here, client, version, served, verdict)
            return None
        if not promote_it:
            return None
    switch = promote(
        client,
        version.name,
        version.number,
        expect=champion.number if champion else None,
        reason="the pipeline's gate passed it",
        figures={rule.name: rule.figure for rule in verdict.rules if rule.figure is not None},
    )
    _write_routes(here, client, switch, version, served)
    for engine in list_engines(here):
        if engine.id != served.engine_id:
            stop_engine(here, engine)
    return switch


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
            f"{name} is at {_called(found.champion)} now, not at {_called(expect)} that v{number} was compared with",
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
    if served.problem:
        return Rule("proof", False, served.difference, served.tolerance, served.problem)
    text = (
        f"served eval loss {served.eval_loss:.4f} on {served.base.name} is {served.difference:.4f} away from "
        f"training's, at most {served.tolerance} allowed"
    )
    return Rule("proof", True, served.difference, served.tolerance, text)


def _refuse(here: Home, client: "MlflowClient", version: Version, served: Served, verdict: Verdict) -> None:
    """Keep the version registered with the reason, and take it off the engine."""
    tag_version(client, version.name, version.number, {"refused": verdict.reason})
    drop_candidate(client, version.name, version.number)
    running = [engine for engine in list_engines(here) if engine.alive]
    for engine in running:
        if engine.id != served.engine_id:
            continue
        if len(running) > 1 and engine.create_time > min(other.create_time for other in running):
            stop_engine(here, engine)  # it was started for this version alone
        elif not served.problem:
            unload(engine, version.served_name)


def _write_routes(here: Home, client: "MlflowClient", switch: Switch, version: Version, served: Served) -> None:
    """Keep on disk what is served now, so that it can be served again without the registry."""
    routes = read_routes(here)
    names = dict(routes.names) if routes and routes.base.sha256 == served.base.sha256 else {}
    versions = {str(switch.to): RoutedVersion(version.manifest.adapter_sha256, served.adapter_folder)}
    previous = fold(read_log(client, switch.name)).previous
    if previous is not None:
        digest = get_version(client, switch.name, previous).manifest.adapter_sha256
        if (here.adapters / digest).is_dir():
            versions[str(previous)] = RoutedVersion(digest, str(here.adapters / digest))
    names[switch.name] = NameRoutes(switch.to, versions)
    write_routes(here, Routes((routes.generation if routes else 0) + 1, served.base, names))


def _called(number: int | None) -> str:
    return "no version" if number is None else f"v{number}"
