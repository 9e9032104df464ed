"""Brings engines and gateways in line with the release log: log → loads and probes → routes → gateways."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field

from registry.names import served_name
from serving.following import BaseFinder, Desired, Follower
from serving.gateways import Pushed, push
from serving.journal import read_overrides
from serving.planning import less, plan, target
from serving.records import Engine, serving_engines
from serving.replicas import lacks, load_missing, mark_ready, observe
from serving.restore import load_version
from serving.room import free_room
from serving.routes import Replica, RoutedVersion, Routes, read_routes, update_routes
from serving.succession import fitting, kinds_for, start_successor, stop_drained, successor_with, take_over
from turnout.errors import BadInput, EngineError, Refused, RegistryUnavailable, ResourceShort
from turnout.files import exclusive
from turnout.paths import Home
from turnout.references import Base

Problems = dict[str, tuple[str, ...]]
"""What is not as the log says, by adapter name; those of no single name under ""."""


@dataclass(frozen=True)
class Outcome:
    """The routes that are in force now, who follows them, and what is not as the log says."""

    routes: Routes | None
    pushed: Pushed = field(default_factory=Pushed)
    problems: Problems = field(default_factory=dict)


class Reconciler:
    """Level-triggered: every pass looks at what is and does what is missing, so nothing is lost with a missed event.

    Several may run at once, in processes of their own: passes wait for each other, a switch does not wait.
    `held_back` are served names that passes do not load while they get no traffic: memory is short.
    """

    def __init__(self, home: Home, find_base: BaseFinder | None = None, *, follow_log: bool = True) -> None:
        self.home = home
        self.follower = Follower(home, find_base)
        self.desired: dict[str, Desired] = {}
        self.held_back: frozenset[str] = frozenset()
        self._follow_log = follow_log
        self._lock = threading.Lock()
        self._restarted: set[str] = set()

    def run_pass(self) -> Outcome:
        """Follow the log, load and probe what is missing, route, and tell the gateways."""
        with exclusive(self.home.lock("reconcile")):
            problems = self.follow()
            before = read_routes(self.home)
            wanted = target(before, self.desired, read_overrides(self.home))
            take_over(self.home, wanted)
            before = read_routes(self.home)
            replicas, found = observe(self.home, before)
            problems += found
            outcome = self._route(replicas)
            loaded, found = load_missing(self.home, less(wanted, self.held_back), before, replicas)
            problems += found
            if loaded != replicas:
                outcome = self._route(loaded)
            stop_drained(self.home)
        every = {**outcome.problems, **({"": tuple(problems)} if problems else {})}
        return Outcome(outcome.routes, outcome.pushed, every)

    def switch(self, name: str) -> Outcome:
        """Follow the log of one name and route it, on the replicas as they were found last; loads nothing.

        Raises:
            RegistryUnavailable: MLflow did not answer.
        """
        with self._lock:
            self.desired = self.desired | self._read(name)
        return self._route(None)

    def prepare(self, name: str, number: int) -> list[str]:
        """Load and probe a version on every replica that is to serve it; returns the engines that lacked it.

        The first kind of engine that has proven it decides; where others cannot take it, the passes say so.

        Raises:
            NotFound: no such version, or its base is not known here.
            EngineError: no engine can take it.
            Refused: it is not proven on the engine's build.
            ProofFailed: it does not answer as when it was proven.
        """
        version = self.follower.routed_version(name, number)
        base = self.follower.bases[version.base_sha256]
        with exclusive(self.home.lock("reconcile")):
            first, *others = kinds_for(self.home, version)
            lacking = self._prepare_pool(first, base, name, number, version)
            for kind in others:
                with suppress(EngineError, Refused, ResourceShort):
                    lacking += self._prepare_pool(kind, base, name, number, version)
        return [engine.id for engine in lacking]

    def _prepare_pool(self, kind: str, base: Base, name: str, number: int, version: RoutedVersion) -> list[Engine]:
        served = served_name(name, number)
        if successor_with(self.home, base, served, kind):
            return []
        engines = fitting(self.home, base, version, kind) or [start_successor(self.home, base, version, kind)]
        lacking = [engine for engine in engines if lacks(self.home, engine, served)]
        for engine in lacking:
            self._load(engine, name, number, version)
        return lacking

    def _load(self, engine: Engine, name: str, number: int, version: RoutedVersion) -> None:
        free_room(self.home, engine, name, number)
        placed = load_version(self.home, engine, served_name(name, number), version)
        if placed.state != "proven":
            raise Refused(
                f"{placed.name} is not proven on {engine.id} ({engine.build}): its proof is {placed.state}",
                "Run the pipeline that made it again (turnout run): it trains nothing anew, and proves the version.",
            )
        mark_ready(self.home, engine, placed.name)

    def follow(self) -> list[str]:
        """Read the logs; without the registry what was read last stays, or what is on disk."""
        if not self._follow_log:
            return []
        try:
            with self._lock:  # so that nothing older than what a switch has read comes after it
                self.desired = self._read()
        except (RegistryUnavailable, BadInput) as error:
            return [f"the registry is out of reach, the last good routes go on: {error.message}"]
        return []

    def _read(self, only: str | None = None) -> dict[str, Desired]:
        """Read the logs. One that ends before what was routed earlier is another log now: MLflow was restored."""
        before = read_routes(self.home)
        found = self.follower.follow(only)
        routed = before.names if before else {}
        for name, desired in found.items():
            if name in routed and routed[name].event > desired.release.generation:
                self._restarted.add(name)
            else:
                self._restarted.discard(name)
        return found

    def _route(self, replicas: tuple[Replica, ...] | None) -> Outcome:
        """Write the routes and push them; with `replicas` None those of the present routes stay."""
        problems: Problems = {}
        bases = dict(self.follower.bases)
        if replicas is not None:  # before the first release only the engines know what they serve
            bases = {engine.base.sha256: engine.base for engine in serving_engines(self.home)} | bases

        def change(before: Routes | None) -> Routes:
            present = before.replicas if before else ()
            found = present if replicas is None else replicas
            overrides = read_overrides(self.home)
            planned = plan(before, self.desired, found, bases, overrides, self._restarted)
            problems.clear()
            problems.update(planned.problems)
            return planned.routes

        routes = update_routes(self.home, change)
        pushed = push(self.home, routes) if routes else Pushed()
        return Outcome(routes, pushed, problems)
