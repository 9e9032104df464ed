"""Runs a converter in a process of its own and makes its failure readable."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence

from serving.processes import own_path
from turnout.errors import EngineError, ResourceShort

_DISK_FULL = re.compile(r"No space left on device|iostream error|failed to write|file write failed", re.IGNORECASE)
_FRAME = re.compile(r"^\s|^Traceback |^\s*$|^INFO:")
_PREFIX = re.compile(r"^(?:ERROR|CRITICAL):[\w.-]+:|^[\w.]*(?:Error|Exception): ")


def run(module: str, arguments: Sequence[str], name: str) -> None:
    """Run `python -m module` on `arguments`; `name` is what it converts.

    Raises:
        EngineError: with the last thing that it said.
        ResourceShort: the disk or the memory ran full.
    """
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **own_path(), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            check=False,
        )
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    if done.returncode == 0:
        return
    if _DISK_FULL.search(said):
        raise ResourceShort(
            f"the disk is full: converting {name} to GGUF stopped", "Free some space and try again: it starts over."
        )
    if done.returncode == -9:
        raise ResourceShort(
            f"converting {name} to GGUF was killed, as the kernel does when memory runs out", "Free memory; try again."
        )
    raise EngineError(
        f"llama.cpp cannot convert {name} to GGUF: {last_words(said.splitlines())} (exit {done.returncode})",
        "Use an architecture and an adapter that llama.cpp's converters know, or serve it with vLLM.",
    )


def last_words(lines: Iterable[str]) -> str:
    """The last line that is no stack frame, without the logger's prefix."""
    useful = [line for line in lines if not _FRAME.search(line)]
    return _PREFIX.sub("", useful[-1]).strip()[:500] if useful else "it said nothing"
