"""What is known of the engines that this home has started, kept in `engines/<id>.json`."""

from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from serving.processes import is_alive, read_pid_file
from turnout.files import read_json, write_json
from turnout.paths import Home
from turnout.references import Base, from_json, to_json


@dataclass(frozen=True)
class Engine:
    """A started engine. `pid` and `create_time` (seconds since 1970) are 0 before its process is known.

    `build` names what computes: proofs hold for one build. It is empty until the engine is ready.
    """

    id: str
    kind: str
    url: str
    base: Base
    max_lora_rank: int
    max_loras: int
    max_cpu_loras: int
    computes_on: str
    command: tuple[str, ...]
    log: str
    pid: int = 0
    create_time: float = 0.0
    build: str = ""

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
    """The recorded engines, dead ones too, by id."""
    engines = [_read(home, file) for file in sorted(home.engines.glob("*.json"))]
    return [engine for engine in engines if engine]


def find_engine(home: Home) -> Engine | None:
    """The engine of this home that runs, or is still starting; the oldest, while its successor takes over."""
    alive = [engine for engine in list_engines(home) if engine.alive]
    return min(alive, key=lambda engine: engine.create_time, default=None)


def _read(home: Home, file: Path) -> Engine | None:
    try:
        value = read_json(file)
        engine = from_json(Engine, value) if value else None
    except (ValidationError, ValueError):
        return None
    # Whoever started it may have been killed before it could write down the pid.
    if engine and not engine.pid and (process := read_pid_file(pid_file(home, engine.id))):
        return replace(engine, pid=process[0], create_time=process[1])
    return engine
