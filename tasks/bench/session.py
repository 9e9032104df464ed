"""One run of benches in a home: nobody else's at the same time, nothing left over before or after."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from data.config import DataConfig
from serving.config import ServingConfig
from tasks.bases import ensure_parity_base, resolve_base
from tasks.bench.adapter import find_adapter
from tasks.bench.engines import Engines
from tasks.bench.gateway import stop_gateway
from tasks.bench.load_generator import LoadGenerator
from tasks.bench.prices import ARTICLES, Prices
from tasks.bench.setting import BenchSetting
from turnout.errors import ResourceShort
from turnout.files import exclusive
from turnout.paths import Home

Progress = Callable[[str], None]


@contextmanager
def bench_session(
    home: Home,
    base_name: str,
    serving: ServingConfig,
    data: DataConfig,
    *,
    adapter: str | None = None,
    quick: bool = False,
    users: tuple[int, ...] = (1, 10, 50),
    progress: Progress = lambda text: None,
    prices: Prices = ARTICLES,
) -> Iterator[BenchSetting]:
    """A setting whose engines and load generator end with the block, however it ends.

    Raises:
        ResourceShort: another bench runs in this home.
        NotFound: there is no such adapter.
    """
    with _alone(home), _terminated_as_interrupted():
        original = resolve_base(base_name, progress)
        base = ensure_parity_base(original, progress=progress) if serving.base == "parity" else original
        found = find_adapter(home, adapter, base) if adapter else None
        engines = Engines(home, progress)
        try:
            engines.stop_leftovers()
            stop_gateway(home)
            with LoadGenerator(home.logs / "bench-load.log") as load:
                yield BenchSetting(
                    home, base, original, serving, data, engines, load, found, quick, users, progress, prices
                )
        finally:
            progress("engines stop")
            engines.close()


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    lock = home.lock("bench")
    try:
        with exclusive(lock, wait=False):
            lock.write_text(str(os.getpid()))
            yield
    except BlockingIOError:
        raise ResourceShort(
            f"another bench runs in this home (process {_holder(lock)}): two at a time would measure each other",
            "Wait until it is done, or stop it.",
        ) from None


def _holder(lock: Path) -> str:
    return lock.read_text().strip() or "unknown"


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, so that its engines are stopped."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
