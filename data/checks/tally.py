"""Adds up the facts of all batches, and counts what each check looks for."""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from data.checks.answers import CUT, WHOLE
from data.checks.columns import Columns
from data.checks.facts import SAMPLE, Facts, Sampled, merged_labels, smallest
from data.checks.languages import language_shares
from data.checks.lengths import length_figures
from data.checks.near import leaks, near_rows, repeats
from data.checks.pairing import chance_of_random_pairing
from data.checks.personal import KINDS, mask_personal
from data.config import DataConfig

EXAMPLES = 5
"""How many rows a finding names."""

_CERTAIN_SHARE = 0.1
"""Answers that may be cut count from this share of certainly cut ones on."""


@dataclass(frozen=True)
class Count:
    """What one check found: `count` of `of` rows, and the first of them in words."""

    count: int
    of: int
    examples: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return self.count / self.of if self.of else 0.0


@dataclass(frozen=True)
class Tallied:
    """Every figure of a dataset; `counts` by the checks' names, `fitting_prompts` of rows within `max_length`."""

    rows: int
    distinct_prompts: int
    fitting_prompts: int
    validation_rows: int
    counts: dict[str, Count]
    personal_data: dict[str, int]
    languages: dict[str, float]
    labels: dict[str, float] | None
    lengths: dict[str, Any]
    chance_of_random_pairing: float | None


class Tally:
    """Takes batches in the rows' order; a context manager, because its columns lie in temporary files."""

    def __init__(self, config: DataConfig) -> None:
        self.config = config
        self._place = tempfile.TemporaryDirectory(prefix="turnout-check-")
        self._columns = Columns(Path(self._place.name))
        self._sample: list[Sampled] = []
        self._labels: Counter[str] | None = Counter()
        self._examples: dict[str, list[tuple[int, str]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._columns.close()
        self._place.cleanup()

    @property
    def rows(self) -> int:
        return self._columns.rows

    @property
    def cutoff(self) -> int:
        """Rows whose digest is not under this need no sample of their text."""
        return self._sample[-1].row if len(self._sample) == SAMPLE else 1 << 64

    def add(self, facts: Facts, file: int = 0) -> None:
        """Add the facts of the next batch, which stood in the source's file number `file`."""
        import numpy as np

        start = self.rows
        self._columns.append({**facts.columns, "file": np.full(len(facts.columns["row"]), file)})
        self._sample = smallest(self._sample + facts.sample)
        self._labels = merged_labels(self._labels, facts.labels)
        for name, found in facts.examples.items():
            kept = self._examples.setdefault(name, [])
            kept.extend((start + index, text) for index, text in found[: EXAMPLES * 4 - len(kept)])

    def figures(self, where: Callable[[int, int], str]) -> Tallied:
        """Everything that was counted; `where` names a row by its file's number and its line."""
        import numpy as np

        load = self._columns.load
        lines, files = load("line"), load("file")

        def at(row: int) -> str:
            return where(int(files[row]), int(lines[row]))

        validation = sides(load("position"), self.config.validation_fraction)
        flags = load("flags")
        counts = self._equal_rows(validation, at)
        counts |= self._flagged(flags, at)
        tokens = load("tokens")
        limit = self.config.max_length
        counts["too_long"] = self._count(tokens > limit, lambda row: f"{at(row)}: {tokens[row]} tokens")
        counts["labels"] = self._most_common(load("answer"), at)
        enabled = self.config.checks
        languages = language_shares(self._sample) if enabled.languages.action != "off" and self._sample else {}
        chance = chance_of_random_pairing(self._sample) if enabled.shuffled.action != "off" else None
        sampled = min(len(self._sample), self.rows)
        main = max(languages.values(), default=1.0)
        counts["languages"] = Count(round((1 - main) * sampled), sampled)
        prompts = load("prompt")
        return Tallied(
            rows=self.rows,
            distinct_prompts=len(np.unique(prompts)),
            fitting_prompts=len(np.unique(prompts[tokens <= limit])),
            validation_rows=int(validation.sum()),
            counts=counts,
            personal_data={k: n for i, k in enumerate(KINDS) if (n := int((flags[:, 3] >> i & 1).sum()))},
            languages=languages,
            labels=self._label_shares(),
            lengths=length_figures(tokens, load("answer_tokens")),
            chance_of_random_pairing=chance,
        )

    def _equal_rows(self, validation: Any, at: Callable[[int], str]) -> dict[str, Count]:
        import numpy as np

        checks = self.config.checks
        first = repeats(self._columns.load("row"))
        again = first != np.arange(self.rows)
        counts = {"duplicates": self._count(again, lambda row: f"{at(row)} repeats {at(first[row])}")}
        nothing = np.full(self.rows, -1)
        off = checks.near_duplicates.action == "off"
        near = nothing if off else near_rows(self._columns, ~again, checks.similarity)
        counts["near_duplicates"] = self._count(near >= 0, lambda row: f"{at(row)} is like {at(near[row])}")
        leaked = nothing if checks.leaked.action == "off" else leaks(self._columns, validation, checks.similarity)
        found = self._count(leaked >= 0, lambda row: f"{at(row)} (validation) is like {at(leaked[row])} (training)")
        return counts | {"leaked": Count(found.count, int(validation.sum()), found.examples)}

    def _flagged(self, flags: Any, at: Callable[[int], str]) -> dict[str, Count]:
        certain = flags[:, 0] == CUT
        cut = flags[:, 0] != WHOLE if certain.sum() >= _CERTAIN_SHARE * self.rows else certain
        masks = {"truncated": cut, "answer_in_prompt": flags[:, 1] > 0}
        masks |= {"damaged": flags[:, 2] > 0, "personal_data": flags[:, 3] > 0}
        counts = {}
        for name, mask in masks.items():
            named = [f"{at(row)}: {text}" for row, text in self._examples.get(name, ()) if mask[row]]
            counts[name] = Count(int(mask.sum()), self.rows, tuple(named[:EXAMPLES]))
        return counts

    def _count(self, mask: Any, example: Callable[[int], str]) -> Count:
        return Count(int(mask.sum()), self.rows, tuple(example(row) for row in mask.nonzero()[0][:EXAMPLES].tolist()))

    def _most_common(self, answers: Any, at: Callable[[int], str]) -> Count:
        import numpy as np

        if not self.rows:
            return Count(0, 0)
        _, first, counts = np.unique(answers, return_index=True, return_counts=True)
        most = counts.argmax()
        return Count(int(counts[most]), self.rows, (f"the answer of {at(int(first[most]))}",))

    def _label_shares(self) -> dict[str, float] | None:
        """Shares of the answers where nearly all are short and each stands there several times, else None."""
        if not self._labels or (total := self._labels.total()) < 0.95 * self.rows or total < 5 * len(self._labels):
            return None
        return {mask_personal(label): round(count / self.rows, 4) for label, count in self._labels.most_common(20)}


def sides(positions: Any, fraction: float) -> Any:
    """The mask of the validation rows, as `data.split.split` chooses them."""
    chosen = positions < fraction
    if len(positions) and not chosen.any():
        return positions == positions.min()
    if chosen.all() and len(positions):
        return positions != positions.max()
    return chosen
