"""Asks nvidia-smi, NVIDIA's own tool, about this machine's GPUs."""

import shutil
import subprocess
from collections.abc import Sequence

_LIMIT_S = 20.0


def query(what: str, fields: Sequence[str], limit_s: float = _LIMIT_S) -> list[list[str]]:
    """The values of `fields`, memory in MiB, for each thing that `what` names: `gpu`, or `compute-apps`, the processes
    on GPUs. Empty where there is no nvidia-smi, or it does not answer within `limit_s` seconds."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return rows(answer.stdout, len(fields))


def rows(told: str, columns: int) -> list[list[str]]:
    """The lines of so many columns; others are remarks, such as that there is no device."""
    lines = ([word.strip() for word in line.split(",")] for line in told.splitlines())
    return [words for words in lines if len(words) == columns and all(words)]
