"""What is known of the gateway's workers, kept in `gateways/<id>.json`, and the settings that they share."""

from dataclasses import dataclass
from pathlib import Path

from serving.config import GatewayConfig
from serving.processes import is_alive
from turnout.files import read_state, write_json
from turnout.paths import Home
from turnout.references import to_json


@dataclass(frozen=True)
class Worker:
    """A worker that listens. `url` is what clients use, `inner_url` answers to this home's processes alone.

    `create_time` is when the process started, in seconds since 1970.
    """

    id: str
    url: str
    inner_url: str
    pid: int
    create_time: float

    @property
    def alive(self) -> bool:
        return is_alive(self.pid, self.create_time)


def worker_id(config: GatewayConfig, index: int) -> str:
    return f"gateway-{config.port}-{index}"


def record_file(home: Home, worker: str) -> Path:
    return home.gateways / f"{worker}.json"


def pid_file(home: Home, worker: str) -> Path:
    return home.gateways / f"{worker}.pid"


def config_file(home: Home) -> Path:
    return home.root / "gateway.json"


def metrics_folder(home: Home, config: GatewayConfig) -> Path:
    """Where the workers of one port keep the figures that each of them shows summed."""
    return home.gateways / f"metrics-{config.port}"


def kept_config(home: Home) -> GatewayConfig | None:
    """The settings that the gateway was last launched with; None where there are none, or they cannot be read."""
    return read_state(config_file(home), GatewayConfig)


def read_config(home: Home) -> GatewayConfig:
    """The settings that the gateway was last launched with, else the defaults."""
    return kept_config(home) or GatewayConfig()


def write_config(home: Home, config: GatewayConfig) -> None:
    write_json(config_file(home), to_json(config))


def write_record(home: Home, worker: Worker) -> None:
    """Write down that `worker` listens, where it does not stand there already."""
    if read_state(record_file(home, worker.id), Worker) != worker:
        write_json(record_file(home, worker.id), to_json(worker))


def remove_record(home: Home, worker: str) -> None:
    record_file(home, worker).unlink(missing_ok=True)
    pid_file(home, worker).unlink(missing_ok=True)


def list_workers(home: Home) -> list[Worker]:
    """The workers that listen, by id."""
    read = (read_state(file, Worker) for file in sorted(home.gateways.glob("*.json")))
    return [worker for worker in read if worker and worker.alive]
