"""`python -m serving.gateway [--index N]`: one gateway worker of the home that TURNOUT_HOME names."""

import argparse
import logging
import os

import uvloop

from serving.gateway.records import metrics_folder, read_config
from turnout.paths import home


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m serving.gateway", description=__doc__)
    parser.add_argument("--index", type=int, default=0, help="which of the workers that share the port this is")
    index = parser.parse_args().index
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    here = home()
    config = read_config(here)
    if config.workers > 1:
        folder = metrics_folder(here, config)
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    # prometheus_client reads the variable when it is imported.
    from serving.gateway.worker import serve

    uvloop.run(serve(here, config, index))


main()
