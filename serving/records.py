"""What is known of the engines that this home has started, kept in `engines/<id>.json`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from serving.config import ServingConfig
from serving.processes import is_alive, read_pid_file
from turnout.files import read_state, write_json
from turnout.paths import Home
from turnout.references import Base, to_json

Role = Literal["serving", "joining", "draining", "resting", "proving"]
UNKNOWN = "unknown"
"""The kind of an engine whose record cannot be read."""
_UNKNOWN_BASE = Base("", "an unknown base", "", "", "", "", ())


@dataclass(frozen=True)
class Engine:
    """A started engine. `pid` and `create_time` (seconds since 1970) are 0 before its process is known.

    `config` is what it was started with, `targets` the modules that adapters may change in it. `build` names what
    computes: proofs hold for one build. It is empty until the engine is ready. A `joining` engine gets no traffic yet:
    it is to take over from others, or is being proven; a `draining` one finishes its requests and is stopped. A
    `resting` one was taken out of the traffic for a proof and comes back; a `proving` one is there for a proof alone.
    """

    id: str
    kind: str
    url: str
    base: Base
    config: ServingConfig
    max_lora_rank: int
    targets: tuple[str, ...]
    computes_on: str
    command: tuple[str, ...]
    log: str
    pid: int = 0
    create_time: float = 0.0
    build: str = ""
    role: Role = "serving"

    @property
    def pool(self) -> tuple[str, str]:
        """The base's sha256 and the kind of engine: engines that share both stand in for each other."""
        return self.base.sha256, self.kind

    @property
    def ready(self) -> bool:
        return bool(self.build)

    @property
    def alive(self) -> bool:
        return self.pid > 0 and is_alive(self.pid, self.create_time)


def record_file(home: Home, engine_id: str) -> Path:
    return home.engines / f"{engine_id}.json"


def pid_file(home: Home, engine_id: str) -> Path:
    return home.engines / f"{engine_id}.pid"


def write_record(home: Home, engine: Engine) -> None:
    write_json(record_file(home, engine.id), to_json(engine))


def remove_record(home: Home, engine_id: str) -> None:
    record_file(home, engine_id).unlink(missing_ok=True)
    pid_file(home, engine_id).unlink(missing_ok=True)


def list_engines(home: Home) -> list[Engine]:
    """The recorded engines, dead ones too, by id.

    One whose record cannot be read, but whose process runs, is there too: it serves nobody, and can be stopped.
    """
    ids = {file.stem for kind in ("json", "pid") for file in home.engines.glob(f"*.{kind}")}
    engines = [_read(home, engine_id) for engine_id in sorted(ids)]
    return [engine for engine in engines if engine]


def running_engines(home: Home) -> list[Engine]:
    """The engines that run, or are still starting, the oldest first."""
    return sorted((engine for engine in list_engines(home) if engine.alive), key=lambda engine: engine.create_time)


def serving_engines(home: Home, *, base: Base | None = None, kind: str | None = None) -> list[Engine]:
    """The running engines that are there for traffic, those still starting included; the oldest first.

    Args:
        base: only those that serve this base.
        kind: only engines of this kind; with `base` too, they are one pool.
    """
    return [
        engine
        for engine in running_engines(home)
        if engine.role == "serving"
        and (base is None or engine.base.sha256 == base.sha256)
        and kind in (None, engine.kind)
    ]


def set_role(home: Home, engine: Engine, role: Role) -> Engine:
    changed = replace(engine, role=role)
    write_record(home, changed)
    return changed


def _read(home: Home, engine_id: str) -> Engine | None:
    engine = read_state(record_file(home, engine_id), Engine)
    if engine and engine.pid:
        return engine
    # Whoever started it may have been killed before it could write down the pid.
    process = read_pid_file(pid_file(home, engine_id))
    if process is None:
        return engine
    engine = engine or Engine(engine_id, UNKNOWN, "", _UNKNOWN_BASE, ServingConfig(), 0, (), "", (), "")
    return replace(engine, pid=process[0], create_time=process[1])
