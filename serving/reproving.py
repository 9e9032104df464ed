"""Proves what is served again after its engine was upgraded, while it goes on serving."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from serving.evidence import Evidence, kept_evidence
from serving.placement import ensure_loaded
from serving.proofs import kept_refusal, proof_state
from serving.records import Engine, running_engines
from serving.routes import Routed, Routes, read_routes, routed
from turnout.errors import TurnoutError
from turnout.paths import Home

_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0


@dataclass(frozen=True)
class Due:
    """A routed version that another build of its engine, or another kind of engine, has proven."""

    engine: Engine
    routed: Routed
    evidence: Evidence

    @property
    def key(self) -> tuple[str, str]:
        return self.routed.served_name, self.engine.build


@dataclass(frozen=True)
class _Failure:
    """`again_at` is by the monotonic clock, in seconds."""

    name: str
    told: str
    pause_s: float
    again_at: float


class Reprover:
    """One proof at a time, in a thread of its own; after one that failed it pauses, each time for twice as long."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._failures: dict[tuple[str, str], _Failure] = {}
        self._thread: threading.Thread | None = None

    def tend(self) -> dict[str, tuple[str, ...]]:
        """Begin a proof if one is due and none is under way; what the latest ones found wrong, by adapter name."""
        if self._thread is None or not self._thread.is_alive():
            due = self.find_due()
            if due:
                self._thread = threading.Thread(target=self.prove, args=(due,), daemon=True)
                self._thread.start()
        told: dict[str, tuple[str, ...]] = {}
        for failure in list(self._failures.values()):
            told[failure.name] = (*told.get(failure.name, ()), failure.told)
        return told

    def find_due(self) -> Due | None:
        """The next version to prove again: champions first. None while a release is under way."""
        routes, engines = read_routes(self.home), running_engines(self.home)
        if _release_under_way(routes, engines):
            return None
        stale: set[tuple[str, str]] = set()
        due: list[Due] = []
        for engine in engines:
            if engine.role != "serving" or not engine.ready or not engine.config.reprove:
                continue
            for each in routed(routes):
                identity = (each.version.adapter_sha256, engine.base.sha256)
                if each.version.base_sha256 != engine.base.sha256 or not self._is_stale(*identity, engine.build):
                    continue
                evidence = kept_evidence(self.home, *identity)
                if evidence:
                    due.append(Due(engine, each, evidence))
                    stale.add(due[-1].key)
        self._failures = {key: failure for key, failure in self._failures.items() if key in stale}
        now = time.monotonic()
        waiting = {key for key, failure in self._failures.items() if failure.again_at > now}
        ready = [each for each in due if each.key not in waiting]
        return min(ready, key=lambda each: not each.routed.champion, default=None)

    def prove(self, due: Due) -> None:
        """Prove one version again. What fails is told, and traffic stays where it is."""
        version = due.routed.version
        try:
            ensure_loaded(
                self.home,
                due.engine,
                served_name=due.routed.served_name,
                adapter_folder=Path(version.path),
                adapter_sha256=version.adapter_sha256,
                evidence=due.evidence,
                wait=False,
            )
        except BlockingIOError:
            return  # a pipeline proves something at this moment
        except (TurnoutError, OSError) as error:
            self._note(due, error.message if isinstance(error, TurnoutError) else str(error))
        else:
            self._failures.pop(due.key, None)

    def _is_stale(self, adapter_sha256: str, base_sha256: str, build: str) -> bool:
        """What another kind of engine has proven and this build has refused is not tried again."""
        identity = (adapter_sha256, base_sha256, build)
        state = proof_state(self.home, *identity)
        return state == "stale" or (state == "elsewhere" and kept_refusal(self.home, *identity) is None)

    def _note(self, due: Due, why: str) -> None:
        before = self._failures.get(due.key)
        pause_s = min(before.pause_s * 2, _LONGEST_PAUSE_S) if before else _FIRST_PAUSE_S
        told = (
            f"{due.routed.served_name} is not proven on {due.engine.build}: {why}. Its traffic stays, and it is "
            f"proven again {pause_s:.0f} s after that"
        )
        self._failures[due.key] = _Failure(due.routed.name, told, pause_s, time.monotonic() + pause_s)


def _release_under_way(routes: Routes | None, engines: list[Engine]) -> bool:
    """Whether engines take over from each other, or a canary or shadow runs."""
    arms = any(on.weights or on.shadow for on in (routes.names if routes else {}).values())
    return arms or any(engine.role in ("joining", "draining") for engine in engines)
