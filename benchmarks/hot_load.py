"""Times the hot-load of an adapter on a running engine, without the probe.

Needs a stack that is up and a version that no route names; it is loaded and unloaded again `--times` times:

    python benchmarks/hot_load.py incidents 3 --times 10
"""

import argparse
import asyncio
import statistics
import time
from pathlib import Path

from registry.adapters import fetch
from registry.store import connect
from registry.versions import get_version
from serving.client import EngineClient
from serving.records import serving_engines
from serving.routes import read_routes, routed
from turnout.paths import home


async def measure(url: str, served_name: str, folder: Path, times: int) -> list[float]:
    """Seconds of each load."""
    seconds = []
    async with EngineClient(url) as client:
        for _ in range(times):
            await client.unload_adapter(served_name)
            began = time.monotonic()
            await client.load_adapter(served_name, folder)
            seconds.append(time.monotonic() - began)
        await client.unload_adapter(served_name)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("version", type=int)
    parser.add_argument("--times", type=int, default=10)
    args = parser.parse_args()
    version = get_version(connect(home()), args.name, args.version)
    if version.served_name in {each.served_name for each in routed(read_routes(home()))}:
        raise SystemExit(f"{version.served_name} is routed; take another version")
    folder = fetch(connect(home()), version, home())
    engine = serving_engines(home())[0]
    seconds = asyncio.run(measure(engine.url, version.served_name, folder, args.times))
    middle, longest = statistics.median(seconds) * 1000, max(seconds) * 1000
    print(f"{version.served_name} on {engine.computes_on}: median {middle:.1f} ms, longest {longest:.1f} ms")


if __name__ == "__main__":
    main()
