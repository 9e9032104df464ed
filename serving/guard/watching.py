"""The memory guard itself: looks every few seconds in a thread of its own, and acts in another."""

import logging
import threading
import time
from collections.abc import Callable

from serving.config import GuardConfig
from serving.engines import remembered
from serving.guard.clearing import clear
from serving.guard.deciding import Decision, Look, Standing, decide, worth_a_restart
from serving.guard.readings import Reading, Starts, has_room_for_another, looks, read_memory
from serving.guard.restarting import Way, others_serve, restart
from serving.records import Engine, serving_engines
from turnout.errors import TurnoutError
from turnout.paths import Home

_log = logging.getLogger("turnout.guard")


class Guard:
    """What it measured last, how each engine stands, and what there is to tell about them.

    Passes go on while it looks and acts: they only ask it what is known.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.reading: Reading | None = None
        self.standings: dict[str, Standing] = {}
        self._starts = Starts(home)
        self._held: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._done: dict[str, str] = {}
        self._due = threading.Event()
        self._acting: threading.Thread | None = None
        self._restarting: str | None = None

    def start(self) -> None:
        threading.Thread(target=self._watch, name="guard", daemon=True).start()

    @property
    def held_back(self) -> frozenset[str]:
        """Served names that were unloaded to save memory, and are not to be loaded again without need."""
        return frozenset(self._held)

    def problems(self) -> list[str]:
        """What is short of memory, and what was done about it."""
        return list(self._told.values())

    def look(self) -> Decision:
        """Measure and decide; what is to be done begins in a thread, unless something is being done still."""
        reading = read_memory(self.home)
        self._starts.note(reading)
        self.reading = reading
        engines = {engine.id: engine for engine in serving_engines(self.home)}
        seen = looks(reading, self._starts, engines.values())
        if self._acting and self._acting.is_alive():
            return Decision(self.standings)
        now, config = time.monotonic(), self._config()
        decision = decide(config, self.standings, seen, now)
        self.standings = decision.standings
        self._forget(config, now)
        self._tell(config, seen)
        acts: list[Callable[[], None]] = [self._clearing(engines[each]) for each in decision.clear]
        if decision.drain:
            acts.append(self._draining(engines[decision.drain]))
        if acts:
            self._acting = threading.Thread(target=self._act, args=(acts,), name="guard acts", daemon=True)
            self._acting.start()
        return decision

    def _watch(self) -> None:
        while True:
            try:
                self.look()
            except Exception:  # whatever it is, the next look may see more
                _log.exception("a look at the memory failed")
            self._due.wait(self._config().every_s)
            self._due.clear()

    def _config(self) -> GuardConfig:
        config = remembered(self.home)
        return config.guard if config else GuardConfig()

    def _act(self, acts: list[Callable[[], None]]) -> None:
        for act in acts:
            try:
                act()
            except (TurnoutError, OSError) as error:
                _log.warning("%s", error.message if isinstance(error, TurnoutError) else error)
                return  # the next look, in its time, tries again
        self._due.set()

    def _clearing(self, engine: Engine) -> Callable[[], None]:
        def act() -> None:
            if engine.kind == "llama_cpp" and not self._has_room(engine):
                self._done[engine.id] = "nothing was unloaded: llama.cpp would need as much again for that"
                return
            done = clear(
                self.home, engine, lambda name: self._held.update({name: engine.id}), lambda: self._short(engine)
            )
            self._done[engine.id] = "; ".join(done) or "nothing there can be cleared"
            _log.warning("%s: %s", engine.id, self._done[engine.id])

        return act

    def _draining(self, engine: Engine) -> Callable[[], None]:
        way: Way = "requests are refused"
        if others_serve(self.home, engine):
            way = "others serve"
        elif self._has_room(engine):
            way = "a second engine takes over"

        def act() -> None:
            try:
                restart(self.home, engine, way)
            finally:
                self._told.pop(engine.id, None)

        told = f"{self._told[engine.id]}. It finishes its requests and is started again; meanwhile {way}"
        self._told[engine.id] = told
        _log.warning("%s", told)
        return act

    def _short(self, engine: Engine) -> bool:
        """Whether the engine is past `clear_at` at this moment."""
        seen = looks(read_memory(self.home), self._starts, [engine])
        return bool(seen) and seen[0].worst.share >= self._config().clear_at

    def _has_room(self, engine: Engine) -> bool:
        return has_room_for_another(read_memory(self.home), engine)

    def _forget(self, config: GuardConfig, now: float) -> None:
        """Let be loaded again what was cleared of engines that are fine, or gone, and not at every turn."""
        for name, engine_id in list(self._held.items()):
            was = self.standings.get(engine_id, Standing())
            long_ago = was.cleared_at is None or now - was.cleared_at >= config.clear_every_s
            if was.state == "fine" and long_ago:
                del self._held[name]

    def _tell(self, config: GuardConfig, seen: list[Look]) -> None:
        told = {}
        for look in seen:
            if self.standings[look.engine].state == "fine":
                self._done.pop(look.engine, None)
                continue
            told[look.engine] = _words(config, look, self._done.get(look.engine, ""))
            if look.engine not in self._told:
                _log.warning("%s", told[look.engine])
        self._told = told


def _words(config: GuardConfig, look: Look, done: str) -> str:
    worst = look.worst
    told = f"{look.engine} is short of memory: {worst.limit} is used to {worst.share:.0%}"
    if worst.share < config.drain_at:
        told += f", past serving.guard.clear_at={config.clear_at:.0%}"
    else:
        told += f", past serving.guard.drain_at={config.drain_at:.0%}"
        if not worth_a_restart(config, look):
            told += ", and a restart would give little back: it needs a higher limit, or smaller settings"
    return f"{told}; {done}" if done else told
