"""Measure `turnout data check` on many short rows: seconds, and the peak memory of all its processes together.

    python benchmarks/data_check.py [--rows 1000000] [--format jsonl|csv|parquet] [--json FILE]

Goal for 1,000,000 rows on 2 cores: at most 4 minutes and 3 GB. Run it with twice the rows to see that memory grows
less than the rows do. Rows are about 170 characters, in two languages; one in a hundred repeats an earlier one, one in
a hundred is nearly one, and a few are broken. Peak memory is the largest sum of the processes' proportional set sizes,
looked at four times a second.
"""

import argparse
import csv
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

WORDS = (
    "pod", "disk", "node", "queue", "cache", "proxy", "lease", "shard", "index", "token", "quota", "batch", "socket",
    "kernel", "replica", "volume", "ingress", "scheduler", "webhook", "gateway", "certificate", "registry", "snapshot",
)  # fmt: skip
FAULTS = ("was killed by the kernel", "cannot resolve its host", "refuses connections", "has no space left",
          "waits for a lock", "lost its leader", "failed its probe", "exceeds its quota")  # fmt: skip
KOREAN = ("메모리가 부족합니다", "연결이 거부되었습니다", "디스크가 가득 찼습니다", "인증서가 만료되었습니다")


def rows(count: int) -> Iterator[dict[str, str]]:
    """`count` rows, the same each time."""
    random_ = random.Random(0)
    kept: list[dict[str, str]] = []
    for number in range(count):
        kind = random_.random()
        if kind < 0.01 and kept:
            yield random_.choice(kept)
            continue
        if kind < 0.02 and kept:
            twin = random_.choice(kept)
            yield twin | {"instruction": twin["instruction"].upper() + " !"}
            continue
        row = _row(random_, number)
        if number % 1000 == 0:
            kept.append(row)
        yield row


def _row(random_: random.Random, number: int) -> dict[str, str]:
    names = [f"{random_.choice(WORDS)}-{random_.randrange(10**4)}" for _ in range(3)]
    if number % 5 == 0:
        fault = random_.choice(KOREAN)
        prompt = f"에러 로그 분석: {names[0]} 에서 {names[1]} {fault} (코드 {number % 997})"
        return {"instruction": prompt, "output": f"원인: {names[0]} {fault}. 해결: {names[2]} 설정을 확인하세요."}
    fault = random_.choice(FAULTS)
    prompt = f"Analyse this error log: {names[0]} on {names[1]} {fault}, request {number * 7919 % 10**6}, {names[2]}"
    answer = f"Cause: The {names[0].partition('-')[0]} {fault}. Fix: Look at {names[1]} and restart it."
    return {"instruction": prompt, "output": answer}


def write(path: Path, count: int) -> None:
    """Write the rows in the format of the file's extension."""
    if path.suffix == ".jsonl":
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(count))
    elif path.suffix == ".csv":
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ("instruction", "output"))
            writer.writeheader()
            writer.writerows(rows(count))
    else:
        import pyarrow as pa
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.Table.from_pylist(list(rows(count))), path, row_group_size=10_000)


def measure(path: Path) -> dict[str, Any]:
    """Run the command; its report, the seconds and the peak bytes."""
    command = [sys.executable, "-c", "from flows.cli import main; main()", "data", "check", str(path), "--json"]
    start, peak = time.perf_counter(), 0
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    with tempfile.TemporaryFile() as told, subprocess.Popen(command, stdout=told, env=environment) as process:
        while process.poll() is None:
            peak = max(peak, _memory(process.pid))
            time.sleep(0.25)
        seconds = time.perf_counter() - start
        told.seek(0)
        report = json.loads(told.read())
    return {"seconds": round(seconds, 1), "peak_bytes": peak, "exit_code": process.returncode, "report": report}


def _memory(pid: int) -> int:
    """Proportional set size of a process and all its children, in bytes."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_full_info().pss
    except psutil.Error:
        pass  # it ended meanwhile
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--format", choices=("jsonl", "csv", "parquet"), default="jsonl")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="data-check-") as folder:
        path = Path(folder) / f"rows.{arguments.format}"
        write(path, arguments.rows)
        size = path.stat().st_size
        found = measure(path)
    report = found.pop("report")
    if "error" in report:
        print(report["error"]["message"], file=sys.stderr)
        return 1
    found |= {key: report[key] for key in ("rows", "duplicates", "near_duplicates", "leaked", "too_long", "problems")}
    found |= {"file_bytes": size, "cpus": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    print(f"{found['rows']:,} rows, {size / 1e6:.0f} MB: {found['seconds']} s, peak {found['peak_bytes'] / 1e9:.2f} GB")
    print(json.dumps(found, ensure_ascii=False))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
