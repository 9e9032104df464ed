"""What each `model` of a request stands for, looked up in one step: made anew from every routes, never changed."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from registry.names import served_name
from serving.gateway.arms import choose_version
from serving.gateway.figures import ArmCounts, Figures
from serving.gateway.metrics import Meter, Meters
from serving.gateway.replicas import ReplicaPool, ReplicaState
from serving.routes import NameRoutes, Routes


@dataclass(frozen=True, slots=True)
class Arm:
    """What one version, or a base, is called on engines, and those that can serve it.

    `pools` are the replicas by kind, the primary kind first, as they stand in `replicas`. `counts` is None where
    requests do not bear on a canary: to pinned versions and bases.
    """

    served_name: str
    replicas: tuple[ReplicaState, ...]
    meter: Meter
    is_adapter: bool
    counts: ArmCounts | None = None
    pools: tuple[ReplicaPool, ...] = field(init=False)

    def __post_init__(self) -> None:
        kinds = dict.fromkeys(state.kind for state in self.replicas)
        pools = tuple(tuple(state for state in self.replicas if state.kind == kind) for kind in kinds)
        object.__setattr__(self, "pools", pools)


@dataclass(frozen=True, slots=True)
class Model:
    """A name that clients may ask for. `parent` is the name of its base, itself for a base; `arms` go by version."""

    name: str
    parent: str
    champion: int
    arms: dict[int, Arm]
    weights: tuple[tuple[int, float], ...] = ()
    shadows: tuple[tuple[float, Arm], ...] = ()
    sticky_by_key: bool = False
    public: bool = False

    def choose(self, key: str) -> Arm:
        """The arm for `key`. It counts only where several versions share the requests."""
        if not self.weights:
            return self.arms[self.champion]
        return self.arms[choose_version(self.name, self.champion, self.weights, key)]


@dataclass(frozen=True)
class Table:
    """`models` by every name that a request may carry, public names first."""

    routes: Routes
    models: dict[str, Model] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """What has no engine to answer it: champions, or where nothing is released, the bases."""
        public = [model for model in self.models.values() if model.public]
        wanted = [model.arms[model.champion] for model in public]
        lost = [arm.served_name for arm in wanted if not any(each.takes(arm.served_name) for each in arm.replicas)]
        if public:
            return lost
        bases = [model for model in self.models.values() if model.name == model.parent]
        arms = [arm for model in bases for arm in model.arms.values()]
        if any(each.takes(arm.served_name) for arm in arms for each in arm.replicas):
            return []
        return [arm.served_name for arm in arms] or ["an engine"]


def build_table(routes: Routes, states: Iterable[ReplicaState], meters: Meters, figures: Figures) -> Table:
    every = _primary_first(states)
    models: dict[str, Model] = {}
    for name, on in routes.names.items():
        models[name] = _public(name, on, routes, every, meters, figures)
    for name, on in routes.names.items():
        for number in sorted(map(int, on.versions)):
            arm = _arm(name, number, on, every, meters)
            models[arm.served_name] = Model(name, models[name].parent, number, {number: arm})
    for served in sorted({served for state in every for served in state.routed}):
        able = tuple(state for state in every if served in state.routed)
        name, _, version = served.rpartition("-v")
        if served not in models and version.isdigit() and served not in {state.base_name for state in able}:
            arm = Arm(served, able, meters.of(name, served), is_adapter=True)
            models[served] = Model(name, able[0].base_name, 0, {0: arm})
    for sha256, base in routes.bases.items():
        pool = tuple(state for state in every if state.base_sha256 == sha256)
        arm = Arm(base.name, pool, meters.of(base.name, base.name), is_adapter=False)
        models.setdefault(base.name, Model(base.name, base.name, 0, {0: arm}))
    return Table(routes, models)


def _primary_first(states: Iterable[ReplicaState]) -> tuple[ReplicaState, ...]:
    """By kind, those first that `serving.engines` names first, else in the order in which they come in the routes."""
    every = sorted(states, key=lambda state: state.place)
    order: dict[tuple[str, str], int] = {}
    for state in every:
        order.setdefault((state.base_sha256, state.kind), len(order))
    return tuple(sorted(every, key=lambda state: order[state.base_sha256, state.kind]))


def _public(
    name: str, on: NameRoutes, routes: Routes, every: tuple[ReplicaState, ...], meters: Meters, figures: Figures
) -> Model:
    arms = {number: _arm(name, number, on, every, meters, figures) for number in sorted(map(int, on.versions))}
    if on.champion not in arms:
        arms[on.champion] = Arm(served_name(name, on.champion), (), meters.of(name, ""), is_adapter=True)
    champion = on.versions.get(str(on.champion))
    base = routes.bases.get(champion.base_sha256) if champion else None
    weights = sorted((int(number), percent) for number, percent in on.weights.items())
    return Model(
        name=name,
        parent=base.name if base else "",
        champion=on.champion,
        arms=arms,
        weights=tuple((number, percent) for number, percent in weights if number in arms),
        shadows=tuple((percent / 100, arms[int(each)]) for each, percent in on.shadow.items() if int(each) in arms),
        sticky_by_key=on.sticky_by_key,
        public=True,
    )


def _arm(
    name: str,
    number: int,
    on: NameRoutes,
    every: tuple[ReplicaState, ...],
    meters: Meters,
    figures: Figures | None = None,
) -> Arm:
    served = served_name(name, number)
    base = on.versions[str(number)].base_sha256
    able = tuple(state for state in every if state.base_sha256 == base and served in state.routed)
    counts = figures.counts(name, number) if figures else None
    return Arm(served, able, meters.of(name, served), is_adapter=True, counts=counts)


def shares(routes: Routes) -> Iterable[tuple[str, str, float]]:
    """Name, served name and percent of the name's requests, for every version that gets some."""
    for name, on in routes.names.items():
        left = max(0.0, 100.0 - sum(on.weights.values()))
        yield name, served_name(name, on.champion), left
        for number, percent in on.weights.items():
            yield name, served_name(name, int(number)), percent
