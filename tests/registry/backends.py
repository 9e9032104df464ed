"""Real registries beyond SQLite: an MLflow server, and the PostgreSQL that it may keep its tables in."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.ports import free_port

_START_LIMIT_S = 180


@dataclass(frozen=True)
class Server:
    """An `mlflow server`: where clients reach it, and the folder that it proxies artifacts to."""

    url: str
    artifacts: Path


@contextmanager
def mlflow_server(folder: Path, backend_store: str) -> Iterator[Server]:
    """An `mlflow server` of two workers on a database that may be empty, stopped at the end."""
    artifacts, log = folder / "artifacts", folder / "server.log"
    port = free_port("127.0.0.1")
    store = ["--backend-store-uri", backend_store, "--artifacts-destination", str(artifacts)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "2", *store],
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
            # Its runners of background jobs are seven more processes that import MLflow.
            env={**environment, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        )
    server = Server(f"http://127.0.0.1:{port}", artifacts)
    try:
        _wait_until_reachable(server.url, process, log)
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _wait_until_reachable(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while True:
        try:
            return urllib.request.urlopen(f"{url}/health", timeout=3).close()
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.3)


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL server of our own, which only its socket's folder leads to."""

    programs: Path
    folder: Path
    as_user: dict[str, Any]

    @property
    def uri(self) -> str:
        # The driver is named: SQLAlchemy 2.1 takes psycopg 3 where it is not.
        return f"postgresql+psycopg2://turnout@/postgres?host={self.folder}"

    def run(self, program: str, *args: str) -> None:
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *args]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **self.as_user)
        log = self.folder / "postgres.log"
        assert done.returncode == 0, done.stdout + done.stderr + (log.read_text()[-3000:] if log.exists() else "")

    def control(self, action: str) -> None:
        """`pg_ctl start`, `stop` or `restart`, done when this returns."""
        options = f"-k {self.folder} -c listen_addresses=''"
        self.run("pg_ctl", action, "-w", "-m", "fast", "-l", str(self.folder / "postgres.log"), "-o", options)


@contextmanager
def postgres(programs: Path) -> Iterator[Postgres]:
    """A new PostgreSQL of `programs`, with its usual durability; stopped and removed at the end."""
    # Under /tmp: a socket's path has at most 107 bytes, and the user that PostgreSQL runs as must get there.
    folder = Path(tempfile.mkdtemp(prefix="turnout-pg-", dir="/tmp"))
    server = Postgres(programs, folder, _unprivileged(folder))
    try:
        server.run("initdb", "--username", "turnout", "--auth", "trust", "--encoding", "UTF8", "--no-locale")
        server.control("start")
        try:
            yield server
        finally:
            server.control("stop")
    finally:
        shutil.rmtree(folder)


def postgres_programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`, on PATH or where Debian keeps them; None where there is no PostgreSQL."""
    found = [Path(on_path)] if (on_path := shutil.which("initdb")) else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[0].resolve().parent if found else None


def _unprivileged(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root, so root gives the folder, and the processes, to another user."""
    if os.geteuid() != 0:
        return {}
    user = next(each for each in pwd.getpwall() if each.pw_name in ("postgres", "nobody"))
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
