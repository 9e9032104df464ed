"""The versions that lie on this home's engines, and the traffic that each gets."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from serving.placement import loaded_adapters
from serving.proofs import kept_refusal, proof_state
from serving.records import Engine, serving_engines
from serving.routes import Routed, Routes, routed
from turnout.errors import EngineError
from turnout.paths import Home

_SERVED_NAME = re.compile(r"^(?P<name>.+)-v(?P<number>\d+)$")


@dataclass(frozen=True)
class ServedVersion:
    """One version on one replica. `pool` is the base's name, `replica` the engine's id; `traffic` is the share of its
    name's requests that go to the version, 0 to 1, on whichever replica. `problem` says why none go to it there."""

    name: str
    pool: str
    replica: str
    version: int
    loaded: bool
    proof: str
    traffic: float
    kind: str = ""
    problem: str = ""


def told_versions(routes: Routes) -> list[ServedVersion]:
    """As `served_versions`, for engines of another machine: as its routes tell, so the proofs are not known."""
    rows = []
    for replica in routes.replicas:
        pool = routes.bases[replica.base_sha256].name if replica.base_sha256 in routes.bases else ""
        expected = {e.served_name for e in routed(routes) if e.version.base_sha256 == replica.base_sha256}
        for each in sorted({*replica.ready, *expected}):
            if match := _SERVED_NAME.match(each):
                name, number = match["name"], int(match["number"])
                share, ready = _share(routes, name, number), each in replica.ready
                rows.append(ServedVersion(name, pool, replica.id, number, ready, "unknown", share, replica.kind))
    return rows


def served_versions(home: Home, routes: Routes | None) -> list[ServedVersion]:
    """What is loaded on each replica, and what the routes name there and that is not."""
    rows = []
    engines: list[Engine | None] = [*serving_engines(home)]
    for engine in engines or [None]:
        expected = [each for each in routed(routes) if engine is None or each.version.base_sha256 == engine.base.sha256]
        rows += _on(home, engine, routes, expected)
    return sorted(rows, key=lambda row: (row.name, row.version, row.replica))


def _on(home: Home, engine: Engine | None, routes: Routes | None, expected: list[Routed]) -> list[ServedVersion]:
    loaded = _loaded(engine) if engine else {}
    digests = {each.served_name: each.version.adapter_sha256 for each in expected}
    rows = []
    for served_name in sorted({*loaded, *digests}):
        match = _SERVED_NAME.match(served_name)
        if match is None:
            continue
        # Adapters lie in folders named by their digest.
        digest = digests.get(served_name) or Path(loaded[served_name]).name
        name, number = match["name"], int(match["number"])
        if engine is None:
            rows.append(ServedVersion(name, "", "", number, False, "missing", 0.0))
            continue
        identity = (digest, engine.base.sha256, engine.build or engine.kind)
        proof, refusal = proof_state(home, *identity), kept_refusal(home, *identity)
        told = refusal.why if refusal else "only another kind of engine has proven it: turnout run proves it here too"
        problem, traffic = (told, 0.0) if proof == "elsewhere" else ("", _share(routes, name, number))
        row = ServedVersion(name, engine.base.name, engine.id, number, served_name in loaded, proof, traffic)
        rows.append(replace(row, kind=engine.kind, problem=problem))
    return rows


def _share(routes: Routes | None, name: str, number: int) -> float:
    on = routes.names.get(name) if routes else None
    if on is None:
        return 0.0
    if number == on.champion:
        return round(1 - min(sum(on.weights.values()), 100) / 100, 4)
    return round(on.weights.get(str(number), 0.0) / 100, 4)


def _loaded(engine: Engine) -> dict[str, str]:
    """Served name → folder of the adapters on `engine`; none while it does not answer."""
    try:
        return loaded_adapters(engine)
    except EngineError:
        return {}
