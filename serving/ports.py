"""Whether something can listen where it is told to."""

import errno
import socket
import time

import psutil

from turnout.errors import ResourceShort


def require_free_port(
    host: str, port: int, patience_s: float = 0.0, *, what: str = "the engine", settings: str = "serving"
) -> None:
    """Raises ResourceShort when nothing can listen on `host`:`port` for `patience_s`; the message names who does.

    Args:
        what: wants to listen there.
        settings: where its host and port are set.
    """
    deadline = time.monotonic() + patience_s
    while error := _binding_error(host, port):
        if error.errno != errno.EADDRINUSE:
            raise ResourceShort(
                f"{what} cannot listen on {host}:{port}: {error.strerror or error}",
                f"Choose another address: --set {settings}.host=127.0.0.1 --set {settings}.port=8000",
            )
        if time.monotonic() > deadline:
            raise ResourceShort(
                f"port {port} on {host}, where {what} is to listen, is taken by {_listener(port)}",
                f"Stop that process, or choose another port: --set {settings}.port={port + 1}",
            )
        time.sleep(0.2)


def _binding_error(host: str, port: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None


def free_port(host: str) -> int:
    """A port on which something can listen at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _listener(port: int) -> str:
    try:
        for connection in psutil.net_connections(kind="tcp"):
            address = connection.laddr
            if connection.status == psutil.CONN_LISTEN and connection.pid and address and address.port == port:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        pass  # Only the superuser sees other users' sockets.
    return "another process"
