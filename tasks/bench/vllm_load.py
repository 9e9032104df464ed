"""A child process that runs vLLM's own serving benchmark, one job a line of standard input, until that ends.

`python -m tasks.bench.vllm_load` answers each job, a JSON list of the benchmark's arguments, with one JSON line on
standard output: `{"result": …, "cpu_s": …, "wall_s": …}` or `{"error": …}`; before the first, `{"ready": true}`.
Importing vLLM takes some twenty seconds, which many jobs share so. What the benchmark prints goes to standard error.
"""

import json
import os
import sys
import time
from typing import Any, TextIO

_LISTS = ("generated_texts", "itls", "input_lens")
"""Fields of a result that nobody reads and that are long."""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from vllm.benchmarks.serve import add_cli_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    _say(answers, {"ready": True})
    for line in sys.stdin:
        _say(answers, _run(parser, json.loads(line)))


def _run(parser: Any, arguments: list[str]) -> dict[str, Any]:
    from vllm.benchmarks.serve import main as measure

    cpu, wall = time.process_time(), time.monotonic()
    try:
        result = measure(parser.parse_args(arguments))
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    kept = {name: value for name, value in result.items() if name not in _LISTS}
    return {"result": kept, "cpu_s": time.process_time() - cpu, "wall_s": time.monotonic() - wall}


def _say(answers: TextIO, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
