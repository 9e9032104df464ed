"""A child process for the tests of `tasks.children`: does what its job says."""

import errno
import os
import sys
import time
from pathlib import Path
from typing import Any

from tasks.children import main, say
from turnout.errors import TrainingFailed


def run(job: dict[str, Any]) -> Any:
    folder = Path(job["folder"])
    (folder / "pid").write_text(str(os.getpid()))
    say(folder, "running")
    match job["do"]:
        case "answer":
            return {"answer": job["value"]}
        case "fail":
            raise TrainingFailed("nothing was learned", "Raise the rate.")
        case "fill the disk":
            raise OSError(errno.ENOSPC, "No space left on device", "/x")
        case "crash":
            raise ZeroDivisionError("the end of the log shows this")
        case "die":
            os.kill(os.getpid(), 9)
        case "exit":
            sys.exit(3)
        case "sleep":
            time.sleep(600)
    return None


if __name__ == "__main__":
    main(run)
