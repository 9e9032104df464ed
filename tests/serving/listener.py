"""A small process with vLLM's flags that listens, is healthy after `--delay` seconds, and has a child of its own.

It keeps a list of adapters as vLLM does, and computes nothing: the tests that use it are about processes, ports,
records, logs, and which versions lie where.
"""

import argparse
import http.server
import json
import os
import signal
import subprocess
import sys
import time

ADAPTERS: dict[str, str] = {}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        models = [{"id": name, "root": path} for name, path in ADAPTERS.items()]
        self._answer({"version": "0", "data": models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/load_lora_adapter":
            ADAPTERS[body["lora_name"]] = body["lora_path"]
        elif self.path == "/v1/unload_lora_adapter":
            ADAPTERS.pop(body["lora_name"], None)
        self._answer({})

    def _answer(self, value: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    args, _ = parser.parse_known_args()
    print("listener starts", os.getpid(), flush=True)
    if args.crash:
        print("Loading weights")
        raise ValueError("the weights are broken")
    if args.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    time.sleep(args.delay)
    http.server.ThreadingHTTPServer((args.host, args.port), Handler).serve_forever()


main()
