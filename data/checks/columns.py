"""Numbers of every row, kept in temporary files, so that memory does not grow with the rows."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from data.checks.words import BANDS, HASHES
from turnout.errors import ResourceShort

COLUMNS: dict[str, tuple[str, int]] = {
    "row": ("uint64", 1),  # the first 8 bytes of the conversation's sha256
    "prompt": ("uint64", 1),  # of the prompt's
    "answer": ("uint64", 1),  # a digest of the answer's text
    "position": ("float64", 1),  # where the prompt stands for the split, in [0, 1)
    "tokens": ("int32", 1),
    "answer_tokens": ("int32", 1),
    "line": ("int64", 1),
    "file": ("uint32", 1),  # its number in the source
    "flags": ("uint16", 4),  # truncation, answer in prompt, damaged, personal data
    "bands": ("uint64", BANDS),
    "signature": ("uint8", HASHES),
}
"""Name → type, and elements a row; about 230 bytes a row in all."""


class Columns:
    """The columns in files of `folder`. A matrix is written as one file a column where it is read by column."""

    def __init__(self, folder: Path) -> None:
        self.rows = 0
        self._folder = folder
        self._files = {name: open(folder / name, "wb") for name in _files()}  # noqa: SIM115

    def append(self, batch: Mapping[str, Any]) -> None:
        """Add a batch of rows.

        Raises:
            ResourceShort: the disk with the temporary files is full.
        """
        with self._written():
            self._write(batch)
        self.rows += len(batch["row"])

    def _write(self, batch: Mapping[str, Any]) -> None:
        for name, array in batch.items():
            if name == "bands":
                for band in range(BANDS):
                    self._files[f"bands{band}"].write(array[:, band].tobytes())
            else:
                self._files[name].write(array.astype(COLUMNS[name][0], copy=False).tobytes())

    def load(self, name: str) -> Any:
        """A column as an array; `bands` are `bands0`, `bands1`, …"""
        import numpy as np

        kind, width = COLUMNS[name.rstrip("0123456789")]
        with self._written():
            self._files[name].flush()
        array = np.fromfile(self._folder / name, dtype=kind)
        return array if width == 1 or name.startswith("bands") else array.reshape(-1, width)

    def signatures(self) -> Any:
        """The signatures, read from the disk where they are looked at."""
        import numpy as np

        with self._written():
            self._files["signature"].flush()
        return np.memmap(self._folder / "signature", dtype=np.uint8, mode="r").reshape(-1, HASHES)

    def close(self) -> None:
        """Close the files; the folder's owner removes them."""
        for file in self._files.values():
            with suppress(OSError):  # a full disk, which was told when rows were added
                file.close()

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise ResourceShort(
                f"the disk that holds {self._folder.parent} is full after {self.rows:,} rows",
                "Free some (a row takes 230 bytes), or set TMPDIR to a folder on another disk.",
            ) from error


def _files() -> list[str]:
    return [name for name in COLUMNS if name != "bands"] + [f"bands{band}" for band in range(BANDS)]
