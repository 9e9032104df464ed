"""A small process with vLLM's flags that listens, is healthy after `--delay` seconds, and has a child of its own.

It stands for nothing of vLLM's behaviour: the tests that use it are about processes, ports, records and logs.
"""

import argparse
import http.server
import os
import signal
import subprocess
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"version": "0"}')


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
