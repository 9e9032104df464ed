import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from serving.guard.gpus import Gpu, as_gpus
from serving.guard.memory import Filled, container_memory, host_memory, process_memory, tightest
from serving.nvidia import rows

HOLD = "import sys; held = bytearray(int(sys.argv[1])); print('ready', flush=True); sys.stdin.read()"
MAP = """
import mmap, sys
file = open(sys.argv[1], 'rb')
held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(sum(held[at] for at in range(0, len(held), 4096)), flush=True)
sys.stdin.read()
"""
MIB = 2**20


def test_what_a_process_allocates_is_seen() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(64 * MIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        taken = process_memory(process.pid)
        process.communicate()
    assert 64 * MIB < taken.firm <= taken.total < 128 * MIB
    assert process_memory(process.pid).total == 0


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="this kernel tells no file pages apart")
def test_mapped_files_are_not_firm(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(32 * MIB))
    with subprocess.Popen(
        [sys.executable, "-c", MAP, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        taken = process_memory(process.pid)
        process.communicate()
    assert taken.total - taken.firm >= 32 * MIB and taken.firm < 32 * MIB


def test_the_host_tells_what_it_has() -> None:
    host = host_memory()
    assert host.limit == psutil.virtual_memory().total and 0 < host.share < 1
    container = container_memory(os.getpid())
    assert container is None or 0 < container.used <= container.limit < host.limit


def group(folder: Path, version: int, limit: str, used: int, inactive: int) -> None:
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {inactive}\n")


def test_the_tightest_group_counts(tmp_path: Path) -> None:
    group(tmp_path / "pod", 2, str(900 * MIB), 800 * MIB, 100 * MIB)
    group(tmp_path / "pod" / "engine", 2, "max", 700 * MIB, 0)
    assert tightest(["0::/pod/engine"], tmp_path) == Filled(700 * MIB, 900 * MIB)
    group(tmp_path / "pod" / "engine", 2, str(600 * MIB), 500 * MIB, 50 * MIB)
    assert tightest(["0::/pod/engine"], tmp_path) == Filled(450 * MIB, 600 * MIB)


def test_inside_a_container_its_own_group_is_the_root(tmp_path: Path) -> None:
    group(tmp_path / "memory", 1, str(512 * MIB), 300 * MIB, 44 * MIB)
    lines = ["3:cpu:/docker/abc", "2:memory:/docker/abc", "0::/"]
    assert tightest(lines, tmp_path) == Filled(256 * MIB, 512 * MIB)


def test_without_a_limit_there_is_no_container(tmp_path: Path) -> None:
    group(tmp_path / "memory", 1, str(2**63 - 4096), 300 * MIB, 0)
    group(tmp_path, 2, "max", 300 * MIB, 0)
    assert tightest(["2:memory:/", "0::/"], tmp_path) is None
    assert tightest(["0::/nowhere"], tmp_path / "nothing") is None


def test_what_nvidia_smi_says() -> None:
    assert as_gpus(rows("0, 1024, 81559\n1, [N/A], [N/A]\n", 3)) == [Gpu(0, 1024 * MIB, 81559 * MIB)]
    assert rows("No devices were found\n", 3) == []


@pytest.mark.parametrize(
    ("used", "reserved", "share"), [(90, 0.9, 0.0), (95, 0.9, 0.5), (99, 0.9, 0.9), (50, 0.0, 0.5), (10, 0.9, 0.0)]
)
def test_what_vllm_reserves_of_a_gpu_is_no_pressure(used: int, reserved: float, share: float) -> None:
    assert Gpu(0, used * 2**30, 100 * 2**30).beyond(reserved).share == pytest.approx(share, abs=1e-6)
