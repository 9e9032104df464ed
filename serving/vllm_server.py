"""vLLM's own OpenAI server, started so that a CPU engine is up in a fraction of the time.

`python -m serving.vllm_server` takes vLLM's flags. Nearly all of a CPU engine's start is imports, which vLLM
repeats in every process: the server, the engine, and one more to look at the model's class. Here the engine
is forked from the server, as vLLM does it on GPUs, and the model's class is registered instead of looked
at elsewhere. Measured on two busy cores: 39 s in place of 90 s, and of 190 s when vLLM's cache was empty.
"""

import ctypes
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

_SET_PARENT_DEATH_SIGNAL = 1
UNUSED = ("sklearn", "pandas")
"""Optional libraries that Transformers imports where they exist, for things that an engine never does."""


def main() -> None:
    for name in UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    # What is done here are short cuts: where another version of vLLM does not have them, it starts the slow way.
    with suppress(ImportError, AttributeError):
        if "libiomp5" in os.environ.get("LD_PRELOAD", ""):
            fork_the_engine()
    with suppress(ImportError, AttributeError):
        group_lora_products()
    with suppress(ImportError, AttributeError, KeyError, OSError, ValueError):
        register_model_class(sys.argv[sys.argv.index("--model") + 1])
    import_module("vllm.entrypoints.launchers.api_server.entry").main()


def fork_the_engine() -> None:
    """Make vLLM fork its engine process, which its CPU platform otherwise spawns.

    It spawns because GNU's OpenMP cannot be used in a forked child; Intel's can, so this needs the latter.
    """
    platform = type(import_module("vllm.platforms").current_platform)
    plain = platform.check_and_update_config.__func__

    def check_and_update_config(cls: type, vllm_config: Any) -> None:
        plain(cls, vllm_config)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"

    platform.check_and_update_config = classmethod(check_and_update_config)
    os.register_at_fork(after_in_child=leave_the_server)


def group_lora_products() -> None:
    """Make vLLM's CPU engine compute LoRA as `serving.vllm_lora` does."""
    platform = type(import_module("vllm.platforms").current_platform)
    import_module("vllm.lora.punica_wrapper.punica_cpu")  # without it there is nothing to stand in for
    platform.get_punica_wrapper = classmethod(lambda cls: "serving.vllm_lora.GroupedPunicaWrapper")


def leave_the_server() -> None:
    """Make a forked child end with the server, and let go of the server's port.

    A killed server would leave its engine behind otherwise, holding memory and a port on which nobody answers.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            if _listens(descriptor):
                # Not closed: the child still has an object that would close the number again, whose ever it is then.
                nowhere = os.open(os.devnull, os.O_RDONLY)
                os.dup2(nowhere, descriptor, inheritable=False)
                os.close(nowhere)


def _listens(descriptor: int) -> bool:
    """Whether `descriptor` is a TCP socket that accepts connections."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            is_tcp = copy.family in (socket.AF_INET, socket.AF_INET6)
            return is_tcp and bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False


def register_model_class(model: str) -> None:
    """Register the class of the model in the folder `model`; a lazily known one is inspected in a new process."""
    registry = import_module("vllm.model_executor.models").ModelRegistry
    for architecture in json.loads(Path(model, "config.json").read_text(encoding="utf-8"))["architectures"]:
        registry.register_model(architecture, registry.models[architecture].load_model_cls())


if __name__ == "__main__":
    main()
