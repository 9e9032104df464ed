"""`python -m serving.llama_cpp.child JSON`: one llama.cpp server on a free port of loopback, for one served name.

It says where it listens in one line on standard output, and ends when its parent does.
"""

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass

from serving.llama_cpp.parent import end_with_parent

LISTENING = "listening "


@dataclass(frozen=True)
class ChildSettings:
    """What one server serves: a GGUF file, one adapter's with its scale or none, under `name`.

    `context` is how many tokens each of its `parallel` slots holds.
    """

    name: str
    gguf: str
    adapter: str | None
    scale: float
    context: int
    parallel: int
    threads: int
    batch: int
    mmap: bool
    mlock: bool
    gpu_layers: int | None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    end_with_parent()
    os.environ.pop("LLAMA_ARG_LORA", None)
    import xllamacpp

    server = xllamacpp.Server(_params(ChildSettings(**json.loads(sys.argv[1]))))
    print(LISTENING + server.listening_address, flush=True)
    # The handler of SIGTERM is the default one: there is nothing to save.
    while True:
        signal.pause()


def _params(settings: ChildSettings):  # type: ignore[no-untyped-def]  # a type of a package without annotations
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings.gguf
    params.model_alias = {settings.name}
    if settings.adapter:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(settings.adapter, settings.scale)]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_parallel, params.n_ctx = settings.parallel, settings.context * settings.parallel
    params.fit_params = False  # it would lower the context without a word
    params.n_batch = params.n_ubatch = settings.batch
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = settings.threads
    params.load_mode = _load_mode(settings.mmap, settings.mlock)
    if settings.gpu_layers is not None:
        params.n_gpu_layers = settings.gpu_layers
    # Prompts that left their slots would be kept in up to 8 GiB of memory.
    params.cache_ram_mib, params.cache_idle_slots = 0, False
    params.endpoint_metrics, params.ui = True, False
    params.sse_ping_interval = -1
    # What a model writes is passed on as it is, and a conversation that ends with an answer gets a new one, as by vLLM.
    params.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    params.prefill_assistant = False
    params.verbosity = 1  # errors
    return params


def _load_mode(mmap: bool, mlock: bool):  # type: ignore[no-untyped-def]  # as above
    from xllamacpp import llama_load_mode as mode

    if mlock:
        return mode.LLAMA_LOAD_MODE_MMAP_MLOCK if mmap else mode.LLAMA_LOAD_MODE_MLOCK
    return mode.LLAMA_LOAD_MODE_MMAP if mmap else mode.LLAMA_LOAD_MODE_NONE


if __name__ == "__main__":
    main()
