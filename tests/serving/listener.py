"""A small process with an engine's flags that listens, is healthy after `--delay` seconds, and has with `--child`
a child of its own.

It keeps a list of adapters as vLLM does, and computes nothing: the tests that use it are about processes, ports,
records, logs, and which versions lie where. Every answer is the name that was asked for, every prompt has the token ids
1, 2, 3, and every token of a prompt a loss of 3 nats by the base and 1.9 by an adapter. `POST /control` changes how the
requests after it are answered: `failing` served names get 500, `refusing` ones cannot be loaded, while `holding`
answers wait, adapters have a loss of `nats`, and `endless` answers are cut off; it tells how many were `answered`.
`grow` names what is to take so many MiB of memory, until an adapter of that name is unloaded.
With `--alone PORT` it does not start on another port.
"""

import argparse
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

ADAPTERS: dict[str, str] = {}
HELD: dict[str, bytearray] = {}
FAILING: set[str] = set()
REFUSING: set[str] = set()
FIGURES = {"nats": 1.9, "endless": False, "running": 0, "answered": 0}
OPEN = threading.Event()
OPEN.set()


class Handler(http.server.BaseHTTPRequestHandler):
    base = ""

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(f"vllm:num_requests_running {FIGURES['running']}\nvllm:num_requests_waiting 0\n")
            return
        models = [{"id": name, "root": path} for name, path in {self.base: "", **ADAPTERS}.items()]
        self._answer({"version": "0", "data": models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/load_lora_adapter":
            if body["lora_name"] not in REFUSING:
                ADAPTERS[body["lora_name"]] = body["lora_path"]
            self._answer({}, 500 if body["lora_name"] in REFUSING else 200)
        elif self.path == "/v1/unload_lora_adapter":
            HELD.pop(body["lora_name"], None)
            self._answer({}, 404 if ADAPTERS.pop(body["lora_name"], None) is None else 200)
        elif self.path == "/control":
            self._control(**body)
        else:
            FIGURES["running"] += 1
            try:
                self._complete(body["model"], body)
            finally:
                FIGURES["running"] -= 1

    def _control(
        self,
        failing: Sequence[str] = (),
        refusing: Sequence[str] = (),
        holding: bool = False,
        nats: float = 1.9,
        endless: bool = False,
        grow: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        for now, wanted in ((FAILING, failing), (REFUSING, refusing)):
            now.clear()
            now.update(wanted)
        (OPEN.clear if holding else OPEN.set)()
        FIGURES.update(nats=nats, endless=endless)
        HELD.update({name: bytearray(mib * 2**20) for name, mib in grow.items()})
        self._answer({"answered": FIGURES["answered"]})

    def _complete(self, model: str, body: dict[str, Any]) -> None:
        if model != self.base and model not in ADAPTERS:
            self._answer({"error": {"message": f"The model `{model}` does not exist."}}, 404)
            return
        OPEN.wait()
        if model in FAILING:
            self._answer({"error": {"message": "broken"}}, 500)
            return
        FIGURES["answered"] += 1
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length" if FIGURES["endless"] else "stop"}
        if self.path.endswith("/chat/completions"):
            step = {"token": "token_id:7", "logprob": -0.1, "top_logprobs": [{"token": "token_id:7", "logprob": -0.1}]}
            choice |= {"message": {"role": "assistant", "content": model}, "logprobs": {"content": [step]}}
        else:
            logprob = -3.0 if model == self.base else -FIGURES["nats"]
            prompt = [{str(token): {"logprob": logprob}} for token in body["prompt"]]
            choice |= {"text": model, "prompt_logprobs": [None, *prompt[1:]]}
        more = {"choices": [choice], "usage": {"completion_tokens": 1}, "prompt_token_ids": [1, 2, 3]}
        self._answer({"id": "c", "object": "chat.completion", "created": 1, "model": model, **more})

    def _answer(self, value: Any, status: int = 200) -> None:
        body = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--alone", type=int)
    parser.add_argument("--served-model-name", default="")
    parser.add_argument("--base", type=json.loads, default={"name": ""})
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    args, _ = parser.parse_known_args()
    print("listener starts", os.getpid(), flush=True)
    if args.crash:
        print("Loading weights")
        raise ValueError("the weights are broken")
    if args.alone not in (None, args.port):
        raise MemoryError("no room for a second engine")
    if args.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if args.child:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    time.sleep(args.delay)
    Handler.base = args.served_model_name or args.base["name"]
    http.server.ThreadingHTTPServer((args.host, args.port), Handler).serve_forever()


main()
