"""Runs a stage's heavy part as a child process: how it starts, dies, and hands back a result or an error.

A child is `python -m MODULE JOB.json`; beside the job it leaves `result.json` or `error.json`, and all that it
prints goes to `child.log`. It ends when its parent does, however that ends.
"""

import errno
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnout import errors
from turnout.errors import ResourceShort, TurnoutError
from turnout.files import read_json, write_atomically, write_json
from turnout.references import to_json

JOB, RESULT, ERROR, LOG, SAID = "job.json", "result.json", "error.json", "child.log", "said.txt"
WATCH_STDIN = "TURNOUT_ENDS_WITH_PARENT"
POLL_S = 0.2


def run_module(
    module: str,
    job: dict[str, Any],
    folder: Path,
    *,
    on_poll: Callable[[], None] | None = None,
    failure: type[TurnoutError] = TurnoutError,
) -> Any:
    """Run `python -m module` on `job` in `folder`, calling `on_poll` a few times a second, and give its result.

    Raises:
        TurnoutError: what the child raised, or `failure` with the end of its log where it died without a word.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (RESULT, ERROR, SAID):
        (folder / stale).unlink(missing_ok=True)
    write_json(folder / JOB, {key: _plain(value) for key, value in job.items()})
    with open(folder / LOG, "ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", module, str(folder / JOB)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(),
        )
        try:
            while child.poll() is None:
                if on_poll:
                    on_poll()
                time.sleep(POLL_S)
            if on_poll:
                on_poll()
        finally:
            _end(child)
    return _outcome(folder, child.returncode, module, failure)


def main(run: Callable[[dict[str, Any]], Any]) -> None:
    """The child's side: read the job named on the command line, run it, write the result or the error, and exit."""
    if os.environ.get(WATCH_STDIN):
        threading.Thread(target=_end_with_parent, daemon=True).start()
    job_file = Path(sys.argv[1])
    try:
        result = run(json.loads(job_file.read_text(encoding="utf-8")))
        write_json(job_file.with_name(RESULT), _plain(result))
    except Exception as error:
        traceback.print_exc()
        known = error if isinstance(error, TurnoutError) else as_shortage(error)
        if known:
            value = {"kind": known.kind, "message": known.message, "next_step": known.next_step}
            write_json(job_file.with_name(ERROR), value)
        sys.exit(1)


def say(folder: Path, text: str) -> None:
    """The child's word on what it is doing now, for `said` in the parent."""
    write_atomically(folder / SAID, text)


def said(folder: Path) -> str:
    file = folder / SAID
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def as_shortage(error: BaseException) -> ResourceShort | None:
    """The error as a full disk or full memory, if it is one."""
    text = str(error)
    if (
        getattr(error, "errno", None) == errno.ENOSPC
        or "No space left on device" in text
        or "file write failed" in text
    ):
        return ResourceShort(f"the disk is full: {text}", "Free some space and run the same command again: it goes on.")
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in text:
        return ResourceShort(
            f"out of memory: {text.splitlines()[0] if text else 'allocation failed'}",
            "Lower train.batch_size, data.max_length or score.batch_size, or set train.gradient_checkpointing: true.",
        )
    return None


def leave_out(*modules: str) -> None:
    """Make optional libraries look absent to this process: transformers and trl import what they find.

    None in `sys.modules` is Python's own way to say that a module is not to be had.
    """
    for module in modules:
        sys.modules.setdefault(module, None)  # type: ignore[arg-type]


def quieten() -> None:
    """Settings that a training or scoring process needs before its first heavy import."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TQDM_DISABLE", "1")
    # bitsandbytes decorates four kernels with torch.compile, which imports the whole compiler (seconds) even where,
    # as here, none of them is ever compiled.
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    leave_out("sklearn", "scipy", "vllm", "torchvision", "PIL", "redis", "tensorboard", "wandb")


def _environment() -> dict[str, str]:
    """The parent's, with this code in the child's path from whatever folder it starts in."""
    here = str(Path(__file__).resolve().parent.parent)
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    # OpenMP threads that spin for milliseconds while they wait slow each other down tenfold where other processes want
    # the same CPUs (a training step on two: 3 s alone, 5 s so, 20 to 70 s with the default). This many turns, some
    # tens of microseconds, still bridge the gap between two operations.
    polite = {} if "OMP_WAIT_POLICY" in os.environ else {"GOMP_SPINCOUNT": "10000"}
    own = {"PYTHONPATH": os.pathsep.join(paths), WATCH_STDIN: "1", "PYTHONUNBUFFERED": "1"}
    return polite | os.environ | own


def _end_with_parent() -> None:
    # The parent holds the other end of the pipe and never writes: end-of-file means that it is gone. Not through
    # sys.stdin, whose lock the interpreter cannot take back at its own end.
    while os.read(0, 1):
        pass
    os._exit(1)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()
    child.wait()
    if child.stdin:
        child.stdin.close()


def _outcome(folder: Path, code: int, module: str, failure: type[TurnoutError]) -> Any:
    if code == 0 and (folder / RESULT).is_file():
        return read_json(folder / RESULT)
    if error := read_json(folder / ERROR):
        known = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TurnoutError)]
        kinds = {kind.kind: kind for kind in known}
        raise kinds.get(error["kind"], failure)(error["message"], error["next_step"])
    if code == -9:
        raise ResourceShort(
            f"{module} was killed from outside (signal 9), as the kernel does when memory runs out",
            "Free memory, or lower train.batch_size or data.max_length; then run the same command again.",
        )
    raise failure(f"{module} ended with code {code}; the end of its log:\n{_tail(folder / LOG)}", f"See {folder / LOG}")


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return to_json(value) if hasattr(value, "__dataclass_fields__") else value
