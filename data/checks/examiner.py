"""Reads, tokenises and examines a batch of a source's records; runs in worker processes."""

import os
import signal
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from data.checks.facts import Facts, examine
from data.conversation import Row, conversation_sha256
from data.problems import Problems, RowProblem
from data.read import RowReader, SourceFile
from data.tokens import Encoded, encode, encode_all, load_tokenizer


@dataclass(frozen=True)
class Batch:
    """Records of the source's file `number`, each with its line, not read yet where the file is JSONL."""

    file: SourceFile
    number: int
    records: list[tuple[int, Any]]


class Examiner:
    """Examines batches of the source called `source`, for a base's tokenizer. `common` as in `examine`."""

    def __init__(self, source: str, base_path: str, eos_ids: tuple[int, ...], common: frozenset[str]) -> None:
        self._source = source
        self._tokenizer = load_tokenizer(base_path)
        self._eos_ids = eos_ids
        self._common = common

    def __call__(self, batch: Batch, cutoff: int) -> tuple[RowReader, Facts]:
        """What the batch's reader saw, and the facts of the rows that can be trained on."""
        reader = RowReader(Problems(self._source))
        rows, encoded = self._encoded(read_batch(batch, reader), reader)
        digests = [(conversation_sha256(row.prompt), conversation_sha256(row.messages)) for row in rows]
        tokens = [(len(item.input_ids), sum(item.loss_mask)) for item in encoded]
        return reader, examine(rows, digests, tokens, self._common, cutoff)

    def _encoded(self, rows: list[Row], reader: RowReader) -> tuple[list[Row], list[Encoded]]:
        if not rows:
            return [], []
        try:
            return rows, list(encode_all([row.messages for row in rows], self._tokenizer, self._eos_ids))
        except RowProblem:
            pass
        found: list[tuple[Row, Encoded]] = []
        for row in rows:
            try:
                found.append((row, encode(row.messages, self._tokenizer, self._eos_ids)))
            except RowProblem as problem:
                reader.problems.add(row.line, str(problem.args[0]))
        return [row for row, _ in found], [item for _, item in found]


def read_batch(batch: Batch, reader: RowReader) -> list[Row]:
    """The batch's rows; what is wrong with the others goes to the reader's problems."""
    read = (reader.row(batch.file, batch.number, line, record) for line, record in batch.records)
    return [row for row in read if row is not None]


def begin_worker() -> None:
    """Set up a worker process: one thread, as the processes fill the cores, and Ctrl-C is left to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


_examiner_of = lru_cache(maxsize=1)(Examiner)


def work(arguments: tuple[Any, ...], batch: Batch, cutoff: int) -> tuple[RowReader, Facts]:
    """`Examiner.__call__` in a worker, which makes its examiner of `arguments` once."""
    return _examiner_of(*arguments)(batch, cutoff)
