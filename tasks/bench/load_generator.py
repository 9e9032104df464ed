"""Sends requests to an engine with vLLM's own serving benchmark, and gives its figures.

Definitions: TTFT = first chunk − send; ITL = from one chunk to the next; TPOT = (latency − TTFT) / (tokens − 1);
latency (E2EL) = last chunk − send. A request's clock starts when it is sent: what it waited for one of `users` to be
free does not count.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from serving.processes import own_path
from tasks.bench.loads import PERCENTILES, Load, Measured, measured_of
from turnout.errors import EngineError, TurnoutError
from turnout.references import Base

DEFINITIONS = (
    "TTFT is from sending a request to its first chunk, ITL from one chunk to the next, TPOT (latency − TTFT) / "
    "(tokens − 1), latency from sending to the last chunk, all as vLLM's serving benchmark measures them."
)


class LoadGenerator:
    """The benchmark's process, which starts at once and imports while engines start; a context manager."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._ready = False
        quiet = {
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
        }
        with open(log, "wb") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tasks.bench.vllm_load"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, **quiet, **own_path()},
                # Ctrl-C is for whoever owns this process, which ends with its standard input.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()

    def wait_ready(self) -> None:
        """Return when its imports are done, so that they disturb no measurement."""
        if not self._ready:
            self._answer()
            self._ready = True

    def measure(self, url: str, model: str, base: Base, load: Load) -> Measured:
        """Put `load` on the engine at `url`, asking for `model`; prompts are made with the tokenizer of `base`.

        Raises:
            EngineError: no request succeeded.
            TurnoutError: the load generator failed.
        """
        # The benchmark's own warm-up sends the first prompt that counts, which llama.cpp then has in its cache.
        if load.warmups:
            self._measure(url, model, base, load.warmup)
        return self._measure(url, model, base, load)

    def _measure(self, url: str, model: str, base: Base, load: Load) -> Measured:
        self.wait_ready()
        if self._child.stdin is None:
            raise RuntimeError("the load generator has no standard input")
        try:
            self._child.stdin.write(json.dumps(_arguments(url, model, base, load)) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._dead() from None
        answer = self._answer()
        if "error" in answer:
            raise TurnoutError(f"vLLM's serving benchmark failed: {answer['error']}", f"See {self._log}.")
        measured = measured_of(answer["result"], answer["cpu_s"] / max(answer["wall_s"], 1e-9))
        if not measured.completed:
            why = measured.errors[0] if measured.errors else "no reason given"
            raise EngineError(
                f"none of {load.requests} requests to {url} succeeded: {why:.300}", "See the engine's log."
            )
        return measured

    def _answer(self) -> Any:
        line = self._child.stdout.readline() if self._child.stdout else ""
        if not line:
            raise self._dead()
        return json.loads(line)

    def _dead(self) -> TurnoutError:
        code = self._child.wait()
        tail = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
        return TurnoutError(
            f"the load generator ended with code {code}; the end of its log:\n{tail}", f"See {self._log}."
        )


def _arguments(url: str, model: str, base: Base, load: Load) -> list[str]:
    lengths = ["--random-input-len", str(load.input_tokens), "--random-output-len", str(load.output_tokens)]
    return [
        *("--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions"),
        *("--model", model, "--served-model-name", model, "--tokenizer", base.path),
        *("--dataset-name", "random", *lengths, "--num-prompts", str(load.requests), "--seed", str(load.seed)),
        *("--max-concurrency", str(load.users), "--request-rate", "inf", "--num-warmups", "0"),
        *("--ignore-eos", "--temperature", "0", "--ready-check-timeout-sec", "0", "--disable-tqdm"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el"),
        *("--metric-percentiles", ",".join(str(percent) for percent in PERCENTILES), "--save-detailed"),
    ]
