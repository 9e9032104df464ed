"""Makes a process end with the one that started it, however that ends."""

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent dies: a server that was left behind would hold memory."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if parent == 1 or os.getppid() != parent:  # it died before the kernel was told
        os._exit(1)
