"""Whether the registry can be reached, asked without importing MLflow, which takes seconds."""

import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from turnout.errors import BadInput, RegistryUnavailable
from turnout.paths import Home

PROBE_SECONDS = 3.0
_DEFAULT_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SQLITE_MAGIC = b"SQLite format 3\0"


def embedded_uri(home: Home) -> str:
    """The URI of the registry that lives in `home`."""
    return f"sqlite:///{home.mlflow_database}"


def tracking_uri(home: Home) -> str:
    """MLFLOW_TRACKING_URI where it is set, else the embedded registry of `home`."""
    return os.environ.get("MLFLOW_TRACKING_URI") or embedded_uri(home)


def never_used(home: Home) -> bool:
    """Whether the registry is to be the embedded one of `home`, which nothing has made yet: looking must not either."""
    return tracking_uri(home) == embedded_uri(home) and not home.mlflow_database.exists()


def reachable(home: Home) -> None:
    """Ask for a sign of life from the registry, within 4 s.

    Raises:
        RegistryUnavailable: nothing answers at the URI, or its SQLite file cannot be used.
        BadInput: the URI names a folder, which MLflow no longer keeps a registry in.
    """
    for uri in dict.fromkeys((tracking_uri(home), os.environ.get("MLFLOW_REGISTRY_URI") or tracking_uri(home))):
        scheme = urlsplit(uri).scheme.partition("+")[0]
        if scheme == "sqlite":
            _check_sqlite(Path(uri.partition(":///")[2]))
        elif scheme in ("http", "https"):
            _probe(uri, _ask_server)
        elif scheme in _DEFAULT_PORTS:
            _probe(uri, _open_socket)
        elif scheme in ("", "file"):
            raise BadInput(
                f"the registry URI {uri!r} is a folder, and MLflow keeps no model registry in folders",
                "unset MLFLOW_TRACKING_URI to use the one in .turnout, or set it to http://… or sqlite:///…",
            )


def _check_sqlite(path: Path) -> None:
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(_SQLITE_MAGIC)) != _SQLITE_MAGIC:
                raise RegistryUnavailable(
                    f"{path} is not a SQLite database", "put a backup in its place, or move it away to start a new one"
                )
    nearest = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not os.access(nearest, os.W_OK):
        raise RegistryUnavailable(f"{nearest} is not writable, so there is no registry", "check its owner and mode")


def _probe(uri: str, ask: Callable[[str], None]) -> None:
    """Run `ask` in a thread of its own: resolving a host name can hang far beyond any time-out of ours."""
    problems: list[Exception] = []

    def attempt() -> None:
        try:
            ask(uri)
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS + 1)
    if thread.is_alive() or problems:
        why = problems[0] if problems else f"no answer within {PROBE_SECONDS + 1:.0f} s"
        raise RegistryUnavailable(
            f"MLflow is out of reach at {_without_password(uri)}: {why}",
            "start it or correct MLFLOW_TRACKING_URI; unset, the registry in .turnout is used",
        )


def _ask_server(uri: str) -> None:
    """Any answer below 500 is a sign of life: proxies may hide /health, and credentials are checked later."""
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=PROBE_SECONDS):
            return
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise
    except urllib.error.URLError as error:
        # MLflow has settings of its own for certificates, so it decides about them.
        if not isinstance(error.reason, ssl.SSLError):
            raise


def _open_socket(uri: str) -> None:
    parts = urlsplit(uri)
    port = parts.port or _DEFAULT_PORTS[parts.scheme.partition("+")[0]]
    socket.create_connection((parts.hostname or "localhost", port), timeout=PROBE_SECONDS).close()


def _without_password(uri: str) -> str:
    parts = urlsplit(uri)
    return uri.replace(f":{parts.password}@", ":***@") if parts.password else uri
