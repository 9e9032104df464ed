"""What the reconciler's process does: a pass every few seconds, and one now where a call asks for it."""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any

from serving import gateways
from serving.canarying import own_figures
from serving.control import followed, switch_to
from serving.emergency import override_here
from serving.guard.watching import Guard
from serving.reconciler_metrics import ReconcilerMetrics
from serving.reconciling import Outcome, Problems, Reconciler
from serving.upkeep import Upkeep
from turnout.errors import BadInput
from turnout.paths import Home

INTERVAL_S = 2.0
_LARGEST = 10**9 - 1
_log = logging.getLogger("turnout.reconciler")


class Service:
    """Passes, one at a time, and the calls; all of them run in threads, as registry and disk block."""

    def __init__(self, home: Home, *, follow_log: bool) -> None:
        self.home = home
        self.reconciler = Reconciler(home, follow_log=follow_log)
        self.problems: Problems = {}
        self.passes = 0
        self.pass_seconds = 0.0
        self._upkeep = Upkeep(self.reconciler)
        self._guard = Guard(home)
        self._metrics = ReconcilerMetrics(home, self._guard)
        self._outcome = Outcome(None)
        self._due = asyncio.Event()
        self._begun = 0
        self._ended = asyncio.Condition()

    async def run(self) -> None:
        """Pass after pass, for ever; a failed one is logged, and the next one tries again."""
        self._guard.start()
        while True:
            self._due.clear()
            self._begun += 1
            try:
                await asyncio.to_thread(self._pass)
            except Exception:  # whatever it is, traffic goes on and the next pass looks again
                _log.exception("a pass failed")
            async with self._ended:
                self.passes = self._begun
                self._ended.notify_all()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), INTERVAL_S)

    async def prepare(self, body: dict[str, Any]) -> dict[str, Any]:
        name, number = _text(body, "name"), _number(body, "version")
        return {"ready": True, "loaded_on": await asyncio.to_thread(self.reconciler.prepare, name, number)}

    async def reconcile(self, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("name") is None:
            await self._whole_pass()
            outcome = self._outcome
            return _told(outcome) | {"problems": [each for told in outcome.problems.values() for each in told]}
        name, event = _text(body, "name"), _number_or_none(body, "event") or 0
        outcome = await asyncio.to_thread(switch_to, self.reconciler, name, event)
        answer = followed(outcome, name, event)
        self._due.set()
        return _told(outcome) | {"pending": list(answer.pending), "problems": list(answer.problems)}

    async def override(self, body: dict[str, Any]) -> dict[str, Any]:
        done = await asyncio.to_thread(
            override_here,
            self.home,
            _text(body, "name"),
            to=_number_or_none(body, "to"),
            expect=_number_or_none(body, "expect"),
            actor=_text(body, "actor", "") or None,
            reason=_text(body, "reason", ""),
        )
        self._due.set()
        return {
            "before": done.before,
            "to": done.to,
            "generation": done.generation,
            "pending": list(done.pending),
            "warnings": list(done.warnings),
        }

    async def drain(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = body.get("drain", True)
        if not isinstance(wanted, bool):
            raise BadInput(f"drain={wanted!r:.60} is neither true nor false", 'give "drain": true, or false to end it')
        pushed = await asyncio.to_thread(gateways.drain, self.home, wanted)
        return {"acknowledged": list(pushed.acknowledged), "pending": list(pushed.pending)}

    async def figures(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"workers": await asyncio.to_thread(own_figures, self.home)}

    async def state(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"problems": self.problems, "passes": self.passes, "pass_seconds": self.pass_seconds}

    async def _whole_pass(self) -> None:
        """Wait for a pass that begins from now on. However many ask, and they do while an engine lacks something, one
        pass is for all of them."""
        wanted = self._begun + 1
        self._due.set()
        async with self._ended:
            await self._ended.wait_for(lambda: self.passes >= wanted)

    def _pass(self) -> None:
        began = time.monotonic()
        found = [*self._upkeep.start_processes(), *self._guard.problems()]
        self.reconciler.held_back = self._guard.held_back
        outcome = self.reconciler.run_pass()
        changed, names = self._upkeep.tend_names()
        if changed:
            outcome = self.reconciler.run_pass()
        problems = dict(outcome.problems)
        problems[""] = (*found, *problems.get("", ()))
        for name, more in names.items():
            problems[name] = (*problems.get(name, ()), *more)
        problems = {name: told for name, told in problems.items() if told}
        if problems != self.problems:
            _log.info("%s", problems or "all is as the log says")
        self.problems, self._outcome = problems, outcome
        self._metrics.write(outcome.routes, self.reconciler.desired)
        self.pass_seconds = round(time.monotonic() - began, 3)


def _told(outcome: Outcome) -> dict[str, Any]:
    routes = outcome.routes
    return {
        "generation": routes.generation if routes else 0,
        "events": {name: on.event for name, on in routes.names.items()} if routes else {},
        "acknowledged": list(outcome.pushed.acknowledged),
        "pending": list(outcome.pushed.pending),
    }


def _text(body: dict[str, Any], key: str, absent: str | None = None) -> str:
    value = body.get(key)
    value = absent if value is None else value
    if not isinstance(value, str):
        raise BadInput(f"{key}={value!r:.60} is not a text", f'give "{key}": "…"')
    return value


def _number(body: dict[str, Any], key: str) -> int:
    value = body.get(key)
    # What is larger no registry holds.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise BadInput(f"{key}={value!r:.60} is not a whole number from 0 to {_LARGEST}", f'give "{key}": 3')
    return value


def _number_or_none(body: dict[str, Any], key: str) -> int | None:
    return None if body.get(key) is None else _number(body, key)
