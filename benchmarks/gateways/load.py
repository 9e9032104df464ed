"""Plain requests as fast as a gateway takes them, sent by wrk, a load generator in C that costs little itself."""

import json
import os
import shutil
import statistics
import subprocess
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateways.contenders import Contender
from turnout.errors import ResourceShort, TurnoutError

QUESTION = "Analyse this error log: nginx: worker_connections: accept4() failed (24: Too many open files)"
_PATH = "/v1/chat/completions"
_MARK = "FIGURES "


@dataclass(frozen=True)
class Figures:
    """Of one measurement, or the medians of several and the sums of their counts. `failed` are answers of 400 and
    above, broken connections and time-outs. `cpu_us` is the processor time of one request in the contender itself,
    which says more than requests/s where other programs use the machine too."""

    p50_ms: float
    p99_ms: float
    requests_per_s: float
    cpu_us: float
    requests: int
    failed: int


def body(model: str, **more: Any) -> bytes:
    value = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 64, "temperature": 0}
    return json.dumps({**value, **more}).encode()


def require_wrk() -> str:
    """wrk's path.

    Raises:
        ResourceShort: it is not installed.
    """
    if found := shutil.which("wrk"):
        return found
    raise ResourceShort("the load generator wrk is not installed", "Install it: apt-get install wrk")


def wrk_version() -> str:
    """wrk prints its version with its usage, and exits 1."""
    first = subprocess.run([require_wrk(), "-v"], capture_output=True, text=True).stdout.splitlines()[0]
    return " ".join(first.split()[:2])


def check(contender: Contender) -> None:
    """One request must be answered as the stub answers it.

    Raises:
        TurnoutError: it is not.
    """
    request = urllib.request.Request(
        contender.url + _PATH, body(contender.model), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = json.load(answer)["choices"][0]["message"]["content"]
    except (OSError, ValueError, LookupError) as error:
        raise TurnoutError(f"{contender.name} at {contender.url} does not answer a request: {error!r}") from error
    if not content.startswith("Cause:"):
        raise TurnoutError(f"{contender.name} answers {content[:80]!r}, not what the stub says")


def measure(contender: Contender, clients: int, seconds: int, folder: Path) -> Figures:
    file = folder / f"{contender.model}.json"
    file.write_bytes(body(contender.model))
    script = Path(__file__).with_name("post.lua")
    options = ["-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "60s", "-s", str(script)]
    cpu_before = contender.cpu_s()
    run = subprocess.run(
        [require_wrk(), *options, contender.url + _PATH],
        env={**os.environ, "BODY_FILE": str(file)},
        capture_output=True,
        text=True,
    )
    cpu_s = contender.cpu_s() - cpu_before
    line = next((line for line in run.stdout.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        raise TurnoutError(f"wrk printed no figures for {contender.url} (exit {run.returncode}): {run.stderr[-500:]}")
    read = json.loads(line.removeprefix(_MARK))
    return Figures(
        p50_ms=read["p50_us"] / 1e3,
        p99_ms=read["p99_us"] / 1e3,
        requests_per_s=read["requests"] / read["duration_us"] * 1e6,
        cpu_us=cpu_s / max(read["requests"], 1) * 1e6,
        requests=read["requests"],
        failed=read["bad_status"] + read["broken"],
    )


def median(rounds: Sequence[Figures]) -> Figures:
    return Figures(
        p50_ms=statistics.median(each.p50_ms for each in rounds),
        p99_ms=statistics.median(each.p99_ms for each in rounds),
        requests_per_s=statistics.median(each.requests_per_s for each in rounds),
        cpu_us=statistics.median(each.cpu_us for each in rounds),
        requests=sum(each.requests for each in rounds),
        failed=sum(each.failed for each in rounds),
    )
