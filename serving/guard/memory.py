"""How much memory processes take, and how much they, their container and the host may take."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from serving.processes import session_members
from serving.records import Engine

_CGROUPS = Path("/sys/fs/cgroup")
_FIELDS = {"Pss", "Pss_File"}


@dataclass(frozen=True)
class Taken:
    """Bytes of one or several processes. What they share is divided among them (PSS). `firm` is less what the kernel
    can have back by itself: pages of files, such as mapped weights."""

    total: int
    firm: int


@dataclass(frozen=True)
class Filled:
    """A limit in bytes, and how much of it is used."""

    used: int
    limit: int

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit > 0 else 0.0


def engine_memory(engine: Engine) -> Taken:
    """What an engine takes with all processes that it started; nothing where it has ended."""
    taken = [process_memory(pid) for pid in _pids(engine)]
    return Taken(sum(each.total for each in taken), sum(each.firm for each in taken))


def process_memory(pid: int) -> Taken:
    """What one process takes; where the kernel does not tell shared pages apart, its resident set."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes = {name: int(size.split()[0]) * 1024 for name, _, size in (line.partition(":") for line in lines[1:])}
        if sizes.keys() >= _FIELDS:
            return Taken(sizes["Pss"], sizes["Pss"] - sizes["Pss_File"])
    except (OSError, ValueError, IndexError):
        pass  # it has ended, is another user's, or the system has no such file
    try:
        rss = psutil.Process(pid).memory_info().rss
    except psutil.Error:
        rss = 0
    return Taken(rss, rss)


def host_memory() -> Filled:
    """What is not available to new processes, of all that the host has."""
    memory = psutil.virtual_memory()
    return Filled(memory.total - memory.available, memory.total)


def container_memory(pid: int, root: Path = _CGROUPS) -> Filled | None:
    """The tightest memory limit among the control groups of a process, and their use less file pages that are not
    in use, as Kubernetes counts it. None where none of them is limited."""
    try:
        membership = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    return tightest(membership.splitlines(), root)


def tightest(membership: Iterable[str], root: Path) -> Filled | None:
    """As `container_memory`, for the lines of a `/proc/<pid>/cgroup`."""
    found = []
    for line in membership:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += _groups(root, path, ("memory.max", "memory.current", "inactive_file"))
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            found += _groups(root / "memory", path, names)
    # Version 1 writes a number beyond any machine where there is no limit.
    limited = [each for each in found if each.limit < psutil.virtual_memory().total]
    return min(limited, key=lambda each: each.limit, default=None)


def _groups(root: Path, path: str, names: tuple[str, str, str]) -> list[Filled]:
    """The group itself and all above it; in a container only the outermost may be visible, as the root."""
    own = root / path.strip("/")
    folders = [folder for folder in (own, *own.parents) if folder == root or root in folder.parents]
    return [filled for folder in folders if (filled := _group(folder, *names))]


def _group(folder: Path, limit: str, used: str, inactive: str) -> Filled | None:
    try:
        stat = dict(line.split(maxsplit=1) for line in (folder / "memory.stat").read_text().splitlines())
        in_use = int((folder / used).read_text()) - int(stat.get(inactive, 0))
        return Filled(max(in_use, 0), int((folder / limit).read_text()))
    except (OSError, ValueError):
        return None  # no such group here, or its limit is "max"


def _pids(engine: Engine) -> set[int]:
    if not engine.alive:
        return set()
    pids = {engine.pid, *(process.pid for process in session_members(engine.pid, engine.create_time))}
    try:
        children = psutil.Process(engine.pid).children(recursive=True)
    except psutil.Error:
        children = []
    return pids | {child.pid for child in children}
