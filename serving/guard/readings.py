"""One look at all engines, the host and the GPUs, against their limits."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from serving.guard.deciding import Look, Pressure
from serving.guard.gpus import Gpu, on_gpu, read_gpus, reserved_share
from serving.guard.memory import Filled, Taken, container_memory, engine_memory, host_memory
from serving.records import Engine, running_engines
from turnout.files import read_json, write_json
from turnout.paths import Home

OWN_LIMIT = "serving.guard.engine_limit_gb"


@dataclass(frozen=True)
class Reading:
    """What was measured at one moment; engines with what they take, those still starting included."""

    host: Filled
    gpus: tuple[Gpu, ...] = ()
    engines: tuple[tuple[Engine, Taken], ...] = ()


def read_memory(home: Home) -> Reading:
    engines = [(engine, engine_memory(engine)) for engine in running_engines(home)]
    return Reading(host_memory(), tuple(read_gpus()), tuple(engines))


class Starts:
    """What each engine took when it was first seen ready. Kept in a file, so that a reconciler that is started again
    does not take what an engine has grown to for what it needs."""

    def __init__(self, home: Home) -> None:
        self._file = home.root / "guard.json"
        self._kept = _as_kept(self._file)

    def note(self, reading: Reading) -> None:
        """Add the engines that were not seen ready before, and forget those that are gone."""
        kept = {}
        for engine, taken in reading.engines:
            if engine.ready:
                # nvidia-smi does not say in a container which process has what, so it is what all have.
                gpus = {f"gpu{gpu.index}": gpu.used for gpu in reading.gpus}
                kept[_key(engine)] = self._kept.get(_key(engine)) or {"own": taken.firm, **gpus}
        if kept != self._kept:
            self._kept = kept
            write_json(self._file, kept)

    def growth(self, engine: Engine, what: str, now: int) -> int:
        """Bytes more than at its start."""
        return max(now - self._kept.get(_key(engine), {}).get(what, 0), 0)


def looks(reading: Reading, starts: Starts, engines: Iterable[Engine]) -> list[Look]:
    """What the guard decides by: each of the `engines` that is ready and takes traffic, under each of its limits."""
    taken = {engine.id: each for engine, each in reading.engines}
    return [
        Look(engine.id, tuple(_pressures(reading, starts, engine, taken[engine.id])))
        for engine in engines
        if engine.id in taken and engine.ready and engine.role == "serving"
    ]


def _pressures(reading: Reading, starts: Starts, engine: Engine, taken: Taken) -> list[Pressure]:
    limits = {"the host's memory": reading.host}
    if container := container_memory(engine.pid):
        limits["its container's memory"] = container
    if own := engine.config.guard.engine_limit_gb:
        limits[OWN_LIMIT] = Filled(taken.firm, int(own * 2**30))
    grown = starts.growth(engine, "own", taken.firm)
    pressures = [Pressure(name, filled.share, Filled(grown, filled.limit).share) for name, filled in limits.items()]
    every = [each for each, _ in reading.engines]
    for gpu in reading.gpus:
        if on_gpu(engine, gpu.index):
            beyond = gpu.beyond(reserved_share(every, gpu.index))
            more = Filled(starts.growth(engine, f"gpu{gpu.index}", gpu.used), beyond.limit).share
            pressures.append(Pressure(f"GPU {gpu.index}'s memory", beyond.share, more))
    return pressures


def has_room_for_another(reading: Reading, engine: Engine) -> bool:
    """Whether host and container stay below `clear_at` while a second engine like `engine` runs."""
    if any(on_gpu(engine, gpu.index) for gpu in reading.gpus):
        return False  # what vLLM reserves of a GPU leaves no room for as much again
    taken = next((each.firm for other, each in reading.engines if other.id == engine.id), 0)
    limits = [each for each in (reading.host, container_memory(engine.pid)) if each]
    return all(Filled(each.used + taken, each.limit).share < engine.config.guard.clear_at for each in limits)


def _key(engine: Engine) -> str:
    return f"{engine.id} {engine.pid} {engine.create_time:.0f}"


def _as_kept(file: Path) -> dict[str, dict[str, int]]:
    try:
        kept = read_json(file)
        return {key: {what: int(size) for what, size in sizes.items()} for key, sizes in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
