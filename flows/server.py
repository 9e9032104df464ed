"""A temporary Prefect server for runs that are not told of a real one.

Prefect starts one by itself, but only when the first call needs it, with a limit that a slow machine misses, and
it outlives a killed run. This one starts while the pipeline still checks its input, and ends with its parent.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from tasks.orders import ONLY_FOR_THIS_COMMAND
from turnout.errors import TurnoutError
from turnout.paths import Home

READY_TIMEOUT_S = 180.0
GRACE_S = 20.0


class TemporaryServer:
    """A Prefect API on a free loopback port, starting in the background."""

    def __init__(self, home: Home) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = home.logs / "prefect-server.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flows.server", str(self.port)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                    "PREFECT_LOGGING_SERVER_LEVEL": "ERROR",
                },
            )

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def wait_until_ready(self) -> None:
        """Raises TurnoutError when it ends or is not up within three minutes."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(f"{self.api_url}/health", timeout=2):
                return
            time.sleep(0.1)
        raise TurnoutError(
            f"Prefect's temporary server did not come up; its log is {self.log}",
            "Point PREFECT_API_URL at a running Prefect server, or run again.",
        )


def prefect_api(home: Home, *, verbose: bool = False) -> TemporaryServer | None:
    """Have a Prefect API: the configured one (None), or a temporary one. Call before Prefect is imported.

    The temporary one is not stopped here: Prefect sends its last logs and events while this process ends.
    """
    # Prefect logs a failed task with its traceback; the command prints the failure itself.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "INFO" if verbose else "CRITICAL")
    if os.environ.get("PREFECT_API_URL") or _profile_has_server():
        return None
    server = TemporaryServer(home)
    os.environ["PREFECT_API_URL"] = server.api_url
    os.environ[ONLY_FOR_THIS_COMMAND] = "1"
    return server


def _profile_has_server() -> bool:
    """Whether the active profile of Prefect names a server. Read here, because Prefect's import takes its settings."""
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    try:
        profiles = tomllib.loads((folder / "profiles.toml").read_text("utf-8"))
        active = os.environ.get("PREFECT_PROFILE") or profiles["active"]
        return bool(profiles["profiles"][active].get("PREFECT_API_URL"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _end_with_parent() -> None:
    """The parent holds the other end of standard input; when it ends, however it ends, the read returns."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)  # lets the server write down what it was sent last
    time.sleep(GRACE_S)
    os._exit(1)


def _serve(port: int) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import uvicorn
    from prefect.server.api.server import create_app

    # `ephemeral` keeps the services that record task runs and events, and leaves out schedulers.
    uvicorn.run(create_app(ephemeral=True, final=True), host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
