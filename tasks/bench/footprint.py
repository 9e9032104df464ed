"""What this process takes of the machine's memory."""

import psutil


def resident_bytes() -> int:
    """The resident memory of this process (RSS). Pages that another process has mapped too count in full: whether
    somebody else has the same model loaded must make no difference.
    """
    return int(psutil.Process().memory_info().rss)


def mapped_bytes(*suffixes: str) -> int:
    """How much of `resident_bytes` are pages of mapped files with these suffixes: the system may drop them."""
    if not hasattr(psutil.Process, "memory_maps"):
        return 0
    maps = psutil.Process().memory_maps(grouped=True)
    return sum(each.rss for each in maps if each.path.endswith(suffixes))
