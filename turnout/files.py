"""Files that are there whole or not at all, and locks between processes."""

import fcntl
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from turnout.references import from_json

T = TypeVar("T")


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text`; a reader, or a crash, sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace(path, text)
    except OSError as error:
        error.filename = str(path)  # a full disk names no file, and the temporary one means nothing to anybody
        raise


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The JSON value in `path`, or None where there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def read_state(path: Path, kind: type[T]) -> T | None:
    """The `kind` that Turnout wrote to `path`, or None: missing, damaged or another version's, to be made again."""
    try:
        return from_json(kind, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return None


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `path` when the block ends well, and vanishes when it does not.

    Where another process has made `path` meanwhile, its folder stays: both hold the same content,
    because such folders are named by their digest. What killed makers of `path` left is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary, lock = _temporary_folder(path)
    try:
        yield temporary
        temporary.chmod(0o755)
        try:
            temporary.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def _temporary_folder(path: Path) -> tuple[Path, int]:
    """An empty folder beside `path`, and the open lock on it that says that its maker lives."""
    while True:
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        with suppress(FileNotFoundError):
            lock = os.open(temporary, os.O_RDONLY)
            with suppress(OSError):  # some network file systems lock no folders
                fcntl.flock(lock, fcntl.LOCK_EX)
            if temporary.is_dir():
                return temporary, lock
            os.close(lock)  # it was taken for an abandoned one before it was locked


def _remove_abandoned(path: Path) -> None:
    for folder in path.parent.glob(f".{glob.escape(path.name)}.{'?' * 8}"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[IO[str]]:
    """Hold the lock file `path`; the kernel frees it when the process ends, however it ends.

    Yields the open file: a child that inherits it holds the lock too, until it closes it.

    Raises:
        BlockingIOError: another process holds it and `wait` is false.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield file
