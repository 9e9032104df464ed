"""The prepare stage: a source becomes tokenised rows, split into training and validation."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from data.check import check_source
from data.checks.facts import compared_text, examine
from data.checks.languages import load_ahead
from data.checks.report import Report, judge
from data.checks.stream import LEAD
from data.checks.tally import Tally
from data.checks.words import common_shingles
from data.config import DataConfig
from data.conversation import Rows, conversation_sha256
from data.prepared_files import Tokens, write_dataset
from data.problems import Problems, RowProblem
from data.source import source_name
from data.split import split
from data.tokens import encode_all, load_tokenizer
from turnout.errors import DataError
from turnout.references import Base, Dataset

_BATCH = 512
"""Rows encoded at a time."""


def prepare(config: DataConfig, base: Base, out: Path, progress: Callable[[int, int], None] | None = None) -> Dataset:
    """Write the rows, the reference and the checks' report to the folder `out`, all or nothing.

    `progress` is told the rows done and the rows in all.

    Raises:
        DataError: the source cannot be used, a check refuses it, or too few rows fit `config.max_length`.
        BadInput: the base's tokenizer cannot be loaded or has no chat template.
    """
    rows = check_source(config)
    if config.checks.languages.action != "off":
        load_ahead()
    tokenizer = load_tokenizer(base.path)
    with Tally(config) as tally:
        kept, too_long, notes = _fit(rows, _encode(rows, tokenizer, base, tally, progress), config)
        report = _judge(rows, tally, config)
    report.raise_refusals()
    validation, moved = split([item.prompt_sha256 for item in kept], config.validation_fraction)
    if "strftime_now" in str(tokenizer.chat_template):
        notes.append("the chat template writes today's date into prompts, so other days give other tokens")
    sides = {"train": [item for item in kept if item.prompt_sha256 not in validation]}
    sides["validation"] = [item for item in kept if item.prompt_sha256 in validation]
    dataset = Dataset(
        path=str(out),
        source=source_name(config),
        format=rows.format,
        sha256=_digest(kept, validation),
        rows=len(rows.rows),
        train_rows=len(sides["train"]),
        validation_rows=len(sides["validation"]),
        too_long=too_long,
        train_tokens=sum(len(item.input_ids) for item in sides["train"]),
        validation_tokens=sum(len(item.input_ids) for item in sides["validation"]),
        longest=max(len(item.input_ids) for item in kept),
        template_sha256=base.template_sha256,
        notes=(*rows.notes, *notes, *_notes(report), *([moved] if moved else [])),
    )
    write_dataset(dataset, sides, report, out)
    return dataset


def _judge(rows: Rows, tally: Tally, config: DataConfig) -> Report:
    tallied = tally.figures(lambda file, line: f"{rows.places[file]} {line}")
    return judge(source_name(config), rows.format, config, tallied, notes=rows.notes)


def _notes(report: Report) -> list[str]:
    """The warnings in short; rows that are too long are noted where they are dropped."""
    return [f"{item.name}: {item.text}" for item in report.warnings if item.name != "too_long"]


def _encode(
    rows: Rows, tokenizer: Any, base: Base, tally: Tally, progress: Callable[[int, int], None] | None
) -> Iterator[tuple[Tokens, bool]]:
    """Each row's tokens, and whether its earlier answers could not be marked; `tally` gets the facts of each batch."""
    import numpy as np

    common = common_shingles(compared_text(row.prompt) for row in rows.rows[:LEAD])
    for start in range(0, len(rows.rows), _BATCH):
        batch = rows.rows[start : start + _BATCH]
        try:
            encoded = list(encode_all([row.messages for row in batch], tokenizer, base.eos_ids))
        except RowProblem as problem:
            text, index = problem.args
            raise DataError(
                f"{rows.file}, {rows.where(batch[index])}: {text}", "Change the row, or use another base."
            ) from problem
        digests = [(conversation_sha256(row.prompt), conversation_sha256(row.messages)) for row in batch]
        lengths = [(len(item.input_ids), sum(item.loss_mask)) for item in encoded]
        tally.add(examine(batch, digests, lengths, common, tally.cutoff))
        for row, item, digest in zip(batch, encoded, digests, strict=True):
            tokens = Tokens(
                row,
                *digest,
                np.asarray(item.input_ids, dtype=np.int32),
                np.asarray(item.loss_mask, dtype=np.int8),
            )
            yield tokens, item.last_only
        if progress:
            progress(min(start + _BATCH, len(rows.rows)), len(rows.rows))


def _fit(rows: Rows, encoded: Iterator[tuple[Tokens, bool]], config: DataConfig) -> tuple[list[Tokens], int, list[str]]:
    """The rows within `max_length`, how many are not, and notes.

    Raises:
        DataError: some are not and `on_too_long` is "refuse".
    """
    kept: list[Tokens] = []
    problems = Problems(rows.file)
    last_only = 0
    for tokens, last in encoded:
        if len(tokens.input_ids) > config.max_length:
            problems.place = rows.places[tokens.row.file]
            problems.add(tokens.row.line, f"{len(tokens.input_ids)} tokens, and data.max_length is {config.max_length}")
        else:
            kept.append(tokens)
            last_only += last
    if config.on_too_long == "refuse":
        problems.raise_any("Shorten these rows, raise data.max_length, or set data.on_too_long=drop to leave them out.")
    notes = []
    if problems.total:
        notes.append(
            f"{problems.total} of {len(rows.rows)} rows are over max_length={config.max_length} and were dropped"
        )
    if last_only:
        notes.append(f"in {last_only} rows only the last answer counts: the chat template rewrites earlier turns")
    return kept, problems.total, notes


def _digest(kept: list[Tokens], validation: frozenset[str]) -> str:
    digest = hashlib.sha256()
    for item in kept:
        side = "validation" if item.prompt_sha256 in validation else "train"
        digest.update(f"{item.row_sha256} {side}\n".encode())
    return digest.hexdigest()
