"""Checks a source of any size: it is read once, in batches, which worker processes examine."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from itertools import chain, islice
from pathlib import Path

from data.checks.examiner import Batch, Examiner, begin_worker, read_batch, work
from data.checks.facts import Facts, compared_text
from data.checks.report import Report, judge
from data.checks.tally import Count, Tally
from data.checks.words import common_shingles
from data.config import DataConfig
from data.problems import Problems
from data.read import RowReader, SourceFile, open_source, raw_records
from data.records import Line
from turnout.errors import DataError, ResourceShort
from turnout.references import Base

BATCH = 1000
_BATCH_BYTES = 4 << 20
LEAD = 4000
"""Rows at the head of the source that say which words are its templates'."""

Progress = Callable[[int, float], None]
"""Is told the rows that are done and the share of the source's bytes that is read."""


def check_stream(
    source: Path, name: str, config: DataConfig, base: Base, progress: Progress | None = None, workers: int = 0
) -> Report:
    """Check the file or folder `source`, which the report calls `name`; `workers` 0 is one a core.

    Memory holds a few batches and, at the end, a few columns of numbers.

    Raises:
        DataError: the source is not there, not UTF-8, mixes formats or holds preference rows.
        BadInput: the base's tokenizer cannot be loaded.
        ResourceShort: a worker process was ended.
    """
    files = open_source(source)
    seen = RowReader(Problems(str(source)))
    batches = _batches(files, seen.problems)
    lead = list(islice(batches, LEAD // BATCH))
    arguments = (str(source), base.path, base.eos_ids, _common(lead, str(source)))
    with Tally(config) as tally:
        small = len(lead) < LEAD // BATCH
        examined = _here(lead, arguments, tally) if small else _spread(chain(lead, batches), arguments, tally, workers)
        sizes = [file.path.stat().st_size for file in files]
        with closing(examined):  # its processes end before a failure is told
            for batch, (reader, facts) in examined:
                seen.merge(reader)
                seen.refuse_mixed()
                tally.add(facts, batch.number)
                if progress:
                    progress(tally.rows, _share_read(batch, sizes))
        seen.refuse_empty()
        if not tally.rows and not seen.problems.total:
            raise DataError(f"{source} holds no rows", "Write at least two rows to it.")
        tallied = tally.figures(lambda file, line: f"{files[file].place} {line}")
    broken = Count(seen.problems.total, tallied.rows + seen.problems.total, tuple(seen.problems.first))
    return judge(name, next(iter(seen.formats), "unknown"), config, tallied, broken, seen.notes)


def _batches(files: list[SourceFile], problems: Problems) -> Iterator[Batch]:
    for number, file in enumerate(files):
        problems.place = file.place
        records, size = [], 0
        for line, record in raw_records(file, problems):
            records.append((line, record))
            size += len(record.raw) if isinstance(record, Line) else 0
            if len(records) == BATCH or size > _BATCH_BYTES:
                yield Batch(file, number, records)
                records, size = [], 0
        if records:
            yield Batch(file, number, records)


def _common(lead: list[Batch], source: str) -> frozenset[str]:
    rows = (row for batch in lead for row in read_batch(batch, RowReader(Problems(source))))
    return common_shingles(compared_text(row.prompt) for row in rows)


Examined = Generator[tuple[Batch, tuple[RowReader, Facts]], None, None]


def _here(batches: list[Batch], arguments: tuple, tally: Tally) -> Examined:
    examiner = Examiner(*arguments)
    return ((batch, examiner(batch, tally.cutoff)) for batch in batches)


def _spread(batches: Iterator[Batch], arguments: tuple, tally: Tally, workers: int) -> Examined:
    """The batches in their order, a few at a time in each worker process."""
    workers = workers or len(os.sched_getaffinity(0))
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, begin_worker)
    waiting: deque[tuple[Batch, Future[tuple[RowReader, Facts]]]] = deque()
    try:
        for batch in batches:
            waiting.append((batch, pool.submit(work, arguments, batch, tally.cutoff)))
            if len(waiting) > 2 * workers:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()
    except BrokenProcessPool:
        raise ResourceShort(
            f"one of the check's {workers} processes was ended, probably for want of memory",
            "Free some, and run again.",
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _share_read(batch: Batch, sizes: list[int]) -> float:
    """The share of the bytes that stand before the batch's end; a file that is read as a whole counts at its end."""
    last = batch.records[-1][1]
    read = last.offset + len(last.raw) if isinstance(last, Line) else 0
    return (sum(sizes[: batch.number]) + read) / max(1, sum(sizes))
