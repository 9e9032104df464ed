"""The reconciler's Prometheus metrics: what a pass found, in a file that the gateways add to their own `/metrics`."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from registry.names import served_name
from serving.following import Desired
from serving.guard.readings import Reading
from serving.guard.watching import Guard
from serving.proof import Proof
from serving.proofs import ProofState, kept_proof, proof_state
from serving.records import Engine, list_engines
from serving.routes import RoutedVersion, Routes
from turnout.paths import Home

_GUARD_STATES = {"fine": 0, "clearing": 1, "draining": 2}


class ReconcilerMetrics:
    """Writes the file after each pass. Proofs are read from disk once, until the folder of proofs changes."""

    def __init__(self, home: Home, guard: Guard) -> None:
        self._home = home
        self._guard = guard
        self._proofs: dict[tuple[str, str, str], tuple[ProofState, Proof | None]] = {}
        self._proofs_of = 0

    def write(self, routes: Routes | None, desired: Mapping[str, Desired]) -> None:
        engines = {engine.id: engine for engine in list_engines(self._home)}
        self._follow_proofs()
        registry = CollectorRegistry()
        registry.register(
            _Families(
                [
                    *self._versions(routes or Routes(0), desired, engines),
                    *_engines(engines.values()),
                    *_memory(self._guard.reading),
                    self._guard_states(engines.values()),
                    _gauge(
                        "turnout_reconciler_last_pass_timestamp_seconds", "End of the last pass.", [((), time.time())]
                    ),
                ]
            )
        )
        file = self._home.reconciler_metrics
        # Written anew every few seconds and of no use after a crash, so it need not be on the disk for sure.
        new = file.with_name(f".{file.name}.{os.getpid()}")
        new.write_bytes(generate_latest(registry))
        new.replace(file)

    def _versions(
        self, routes: Routes, desired: Mapping[str, Desired], engines: Mapping[str, Engine]
    ) -> Iterator[GaugeMetricFamily]:
        proofs, synced = [], []
        differences: dict[tuple[str, ...], float] = {}
        tolerances: dict[tuple[str, ...], float] = {}
        for name in sorted({*routes.names, *desired}):
            on = routes.names.get(name)
            states: dict[str, ProofState] = {}
            for number, version in (on.versions if on else {}).items():
                for replica in (each for each in routes.replicas if each.base_sha256 == version.base_sha256):
                    state, proof = self._proof(version, engines.get(replica.id))
                    proofs.append(((name, number, replica.id, state), 1.0))
                    if on and int(number) == on.champion:
                        states[replica.id] = state
                    if proof:
                        differences[name, number] = max(proof.difference, differences.get((name, number), 0.0))
                        tolerances[name, number] = proof.tolerance
            synced.append(((name,), float(_in_sync(name, routes, desired.get(name), states))))
        yield _gauge("turnout_in_sync", "Whether a name is served as its log says.", synced, "name")
        told = "The proof of a routed version on a replica."
        yield _gauge("turnout_proof", told, proofs, "name", "version", "replica", "state")
        told = "Difference of the served loss from the trained one, the largest of all engines' builds."
        yield _gauge("turnout_parity_difference_nats", told, differences.items(), "name", "version")
        told = "How large that difference may be."
        yield _gauge("turnout_parity_tolerance_nats", told, tolerances.items(), "name", "version")

    def _guard_states(self, engines: Iterable[Engine]) -> GaugeMetricFamily:
        standings = self._guard.standings
        states = [
            ((engine.id,), float(_GUARD_STATES[standings[engine.id].state if engine.id in standings else "fine"]))
            for engine in engines
        ]
        return _gauge("turnout_guard_state", "0 fine, 1 clearing, 2 draining.", states, "engine")

    def _proof(self, version: RoutedVersion, engine: Engine | None) -> tuple[ProofState, Proof | None]:
        if engine is None:
            return "missing", None
        key = (version.adapter_sha256, version.base_sha256, engine.build)
        if key not in self._proofs:
            self._proofs[key] = proof_state(self._home, *key), kept_proof(self._home, *key)
        return self._proofs[key]

    def _follow_proofs(self) -> None:
        try:
            changed = self._home.proofs.stat().st_mtime_ns
        except OSError:
            changed = 0
        if changed != self._proofs_of:
            self._proofs.clear()
            self._proofs_of = changed


class _Families(Collector):
    def __init__(self, families: list[GaugeMetricFamily]) -> None:
        self._families = families

    def collect(self) -> list[GaugeMetricFamily]:
        return self._families


def _in_sync(name: str, routes: Routes, wanted: Desired | None, champion_proofs: Mapping[str, ProofState]) -> bool:
    """As `turnout status` judges it: the champion and the shares are those of the log, and the champion is ready and
    proven wherever its kind of engine has proven it."""
    on = routes.names.get(name)
    if on is None:
        return False
    if wanted:
        release = wanted.release
        logged = [
            {str(number): percent for number, percent in arms.items()} for arms in (release.weights, release.shadow)
        ]
        if (on.champion, on.weights, on.shadow) != (release.champion, *logged):
            return False
    serving = [each for each, state in champion_proofs.items() if state != "elsewhere"]
    ready = {each.id for each in routes.replicas if served_name(name, on.champion) in each.ready}
    return bool(serving) and all(each in ready and champion_proofs[each] == "proven" for each in serving)


def _engines(engines: Iterable[Engine]) -> Iterator[GaugeMetricFamily]:
    up = [((each.id, each.kind), float(each.alive and each.ready)) for each in engines]
    yield _gauge("turnout_engine_up", "Whether an engine runs and has become ready.", up, "engine", "kind")


def _memory(reading: Reading | None) -> Iterator[GaugeMetricFamily]:
    if reading is None:
        return
    taken = [((engine.id, engine.kind), float(each.total)) for engine, each in reading.engines]
    told = "What an engine takes with all its processes; what processes share is divided among them."
    yield _gauge("turnout_engine_memory_bytes", told, taken, "engine", "kind")
    host = reading.host
    told = "What the host has for new processes."
    yield _gauge("turnout_host_memory_available_bytes", told, [((), float(host.limit - host.used))])
    yield _gauge("turnout_host_memory_total_bytes", "What the host has.", [((), float(host.limit))])
    for what in ("used", "total"):
        sizes = [((str(gpu.index),), float(getattr(gpu, what))) for gpu in reading.gpus]
        yield _gauge(f"turnout_gpu_memory_{what}_bytes", f"A GPU's memory, {what}.", sizes, "gpu")


def _gauge(name: str, told: str, values: Iterable[tuple[tuple[str, ...], float]], *labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, told, labels=labels)
    for of, value in values:
        family.add_metric(of, value)
    return family
