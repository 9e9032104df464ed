"""The one place where failures of MLflow, its database and the network become Turnout's errors."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from turnout.errors import RegistryUnavailable, ResourceShort, TurnoutError

_AGAIN = "check MLFLOW_TRACKING_URI and that MLflow answers, then run the same command again: nothing is done twice"
_TRANSPORTS = {"requests", "urllib3", "sqlalchemy"}


@contextmanager
def translated() -> Iterator[None]:
    """Run a block, or (as a decorator) a function, of registry calls.

    Raises:
        RegistryUnavailable: MLflow or its database did not answer, failed, or refused the credentials.
        ResourceShort: the registry's disk is full.
    """
    try:
        yield
    except TurnoutError:
        raise
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        raise fault from error


def fault_of(error: Exception) -> TurnoutError | None:
    """What `error` means to the user, or None where it is no failure of the registry's."""
    text = str(error).strip() or type(error).__name__
    if "disk is full" in text or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        return ResourceShort(f"the registry's disk is full: {_first_line(text)}", "free some space, then run it again")
    if "out-of-date database schema" in text or "Can't locate revision" in text:
        return RegistryUnavailable(
            f"the registry's database was made by another MLflow: {_first_line(text)}",
            "back it up, then run `mlflow db upgrade <its URI>` with the newer MLflow of the two",
        )
    status = http_status(error)
    if status in (401, 403):
        return RegistryUnavailable(
            f"the registry refused the credentials ({status}): {_first_line(text)}",
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN",
        )
    # MLflow calls a damaged database a bad request of ours (400), but keeps the driver's error as the cause.
    origins = {type(each).__module__.partition(".")[0] for each in (error, error.__cause__)}
    if status == 429 or status >= 500 or origins & _TRANSPORTS:
        return RegistryUnavailable(f"the registry did not answer: {_first_line(text)}", _AGAIN)
    return None


def error_code(error: Exception) -> str:
    """MLflow's word for what went wrong, such as RESOURCE_DOES_NOT_EXIST; empty for other exceptions."""
    return str(getattr(error, "error_code", ""))


def http_status(error: Exception) -> int:
    """The HTTP status that MLflow gives to its exception; 0 for other exceptions."""
    status = getattr(error, "get_http_status_code", None)
    return int(status()) if callable(status) else 0


def _first_line(text: str) -> str:
    return text.splitlines()[0][:300]
