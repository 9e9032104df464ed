"""The engines that take traffic: what each has in flight, whether it is well, and which one takes a request."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from serving.gateway.metrics import IN_FLIGHT, REPLICA_UP
from serving.gateway.upstream import Pool
from serving.routes import Replica, Routes

MAX_FAULTS = 3
"""Answers of 5xx, broken connections, or late health probes in a row that eject a replica."""


class InFlight:
    """Requests for one served name on one replica."""

    __slots__ = ("_gauge", "number")

    def __init__(self, served_name: str, replica: str) -> None:
        self.number = 0
        self._gauge = IN_FLIGHT.labels(served_name, replica)

    def change(self, by: int) -> None:
        self.number += by
        self._gauge.inc(by)


@dataclass(frozen=True, slots=True)
class Counted:
    """What an engine said of its own requests. `at` is by the monotonic clock."""

    running: int
    waiting: int
    at: float


class ReplicaState:
    """One replica as a worker sees it.

    `ready` are the served names that may be sent to it: those of the latest routes, less what it was found not to have.
    `epoch` rises when other names are routed to it, so that what an older request finds changes nothing. `total` are
    this worker's own requests there, `others` those beyond them that the engine counted itself a moment ago.
    """

    def __init__(self, replica: Replica, base_name: str) -> None:
        self.id = replica.id
        self.url = replica.url
        self.pool = Pool(replica.url)
        self.in_flight: dict[str, InFlight] = {}
        self.total = 0
        self.others = 0
        self.counted: Counted | None = None
        self.turn = 0
        self.ejected = False
        self.faults = 0
        self.late_probes = 0
        self.epoch = 0
        self.routed: frozenset[str] = frozenset()
        self.ready: set[str] = set()
        self.follow(replica, base_name)

    def follow(self, replica: Replica, base_name: str) -> None:
        self.base_sha256 = replica.base_sha256
        self.kind = replica.kind
        self.place = replica.place
        self.concurrent = replica.concurrent
        self.base_name = base_name
        routed = frozenset(replica.ready) | ({base_name} if base_name else set())
        self.epoch += routed != self.routed
        self.routed, self.ready = routed, set(routed)

    def begin(self, served_name: str) -> InFlight:
        """Count a request, in the same step that chose this replica: a switch waits until none is in flight."""
        entry = self.in_flight.get(served_name)
        if entry is None:
            entry = self.in_flight[served_name] = InFlight(served_name, self.id)
        entry.change(1)
        self.total += 1
        return entry

    def end(self, entry: InFlight) -> None:
        entry.change(-1)
        self.total -= 1

    def takes(self, served_name: str) -> bool:
        return not self.ejected and served_name in self.ready

    def eject(self) -> None:
        self.ejected = True
        REPLICA_UP.labels(self.id).set(0)

    def restore(self, listed: Iterable[str]) -> None:
        """Take it back with what it lists of the routed names."""
        self.relearn(listed)
        self.ejected = False
        self.faults = self.late_probes = 0
        REPLICA_UP.labels(self.id).set(1)

    def relearn(self, listed: Iterable[str]) -> None:
        """Whatever requests found, it has what it lists of the routed names."""
        self.ready = {name for name in self.routed if name == self.base_name} | (self.routed & set(listed))

    def forget(self, served_name: str, epoch: int) -> None:
        """It turned out not to have a name that the routes of `epoch` call ready."""
        if epoch == self.epoch:
            self.ready.discard(served_name)


ReplicaPool = Sequence[ReplicaState]
"""Replicas of one kind, among which a request goes to the one with the least to do."""


class Replicas:
    """All replicas by id, through the changes of the routes."""

    def __init__(self) -> None:
        self.states: dict[str, ReplicaState] = {}
        self._leaving: list[ReplicaState] = []
        self._turn = 0

    def follow(self, routes: Routes) -> None:
        before, self.states = self.states, {}
        for replica in routes.replicas:
            base = routes.bases.get(replica.base_sha256)
            state = before.get(replica.id)
            if state is not None and state.url == replica.url:
                state.follow(replica, base.name if base else "")
                del before[replica.id]
            else:
                state = ReplicaState(replica, base.name if base else "")
                REPLICA_UP.labels(state.id).set(1)
            self.states[replica.id] = state
        for state in before.values():
            state.pool.close()
            if state.id not in self.states:
                REPLICA_UP.labels(state.id).set(0)
        self._leaving = [state for state in [*self._leaving, *before.values()] if state.total]

    def choose(
        self, pools: Sequence[ReplicaPool], served_name: str, avoid: ReplicaState | None = None
    ) -> ReplicaState | None:
        """The one with the fewest requests in the first pool that can answer, in turns where several have as few;
        `avoid` only if it must."""
        best = None
        for pool in pools:
            for state in pool:
                if state is avoid or not state.takes(served_name):
                    continue
                if best is None or (state.total + state.others, state.turn) < (best.total + best.others, best.turn):
                    best = state
            if best is not None:
                break
        if best is None and avoid is not None and avoid.takes(served_name) and any(avoid in pool for pool in pools):
            best = avoid
        if best is not None:
            self._turn += 1
            best.turn = self._turn
        return best

    def in_flight(self) -> dict[str, dict[str, int]]:
        """Replica id → served name → requests, those of replicas that the routes no longer name included."""
        counts: dict[str, dict[str, int]] = {}
        for state in [*self.states.values(), *self._leaving]:
            of_replica = counts.setdefault(state.id, {})
            for served_name, entry in state.in_flight.items():
                if entry.number:
                    of_replica[served_name] = of_replica.get(served_name, 0) + entry.number
        return counts

    def ejected(self) -> list[str]:
        return [state.id for state in self.states.values() if state.ejected]


def load(among: Iterable[ReplicaState]) -> tuple[int, int]:
    """Requests on these replicas, and how many they run at once."""
    total = room = 0
    for state in among:
        if not state.ejected:
            total += state.total + state.others
            room += state.concurrent
    return total, room
