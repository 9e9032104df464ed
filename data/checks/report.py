"""Judges the figures by the preset's checks, and puts them into one report."""

from dataclasses import dataclass
from typing import Any

from data.checks.config import ChecksConfig
from data.checks.pairing import CLEAR, looks_random
from data.checks.tally import Count, Tallied
from data.config import DataConfig
from turnout.errors import DataError

_SAYS = {
    "duplicates": "repeat an earlier row",
    "near_duplicates": "have nearly the prompt of an earlier row",
    "leaked": "have nearly the prompt of a training row",
    "truncated": "have an answer that breaks off",
    "answer_in_prompt": "have a prompt that holds the whole answer",
    "damaged": "hold characters that were decoded wrongly",
    "too_long": "are over data.max_length",
    "labels": "have one and the same answer",
    "languages": "are not in the most common language",
    "personal_data": "hold what looks like personal data or a secret",
}
_FIX = {
    "duplicates": "Remove the repeated rows",
    "near_duplicates": "Keep one of each group of rows that are alike",
    "leaked": "Remove the rows that are alike, or their score says little",
    "truncated": "Restore the answers' ends, or remove the rows",
    "shuffled": "Pair every prompt with its own answer again",
    "answer_in_prompt": "Take the answers out of the prompts",
    "damaged": "Save the rows as UTF-8 again from where they came from",
    "labels": "Add rows with other answers",
    "languages": "Keep the rows of one language",
    "personal_data": "Remove or mask it",
}


@dataclass(frozen=True)
class Finding:
    """What one check says. `severity` is off, ok, warn or refuse; `share` and `limit` are None where it has none."""

    name: str
    severity: str
    count: int
    share: float | None
    limit: float | None
    text: str
    examples: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "examples": list(self.examples)}


@dataclass(frozen=True)
class Report:
    """The outcome of a check of `file`: its figures and findings, in plain JSON values (`data`)."""

    file: str
    findings: tuple[Finding, ...]
    data: dict[str, Any]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "warn"]

    @property
    def refusals(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "refuse"]

    def raise_refusals(self) -> None:
        """Raises:
        DataError: a check refuses the rows; it names every one that does, with figure, limit and first examples.
        """
        if not (refused := self.refusals):
            return
        lines = [f"{item.name}: {item.text}" + "".join(f"\n  {line}" for line in item.examples) for item in refused]
        steps = [_step(item.name) for item in refused]
        raise DataError(f"{self.file} is refused by its checks.\n" + "\n".join(lines), "\n".join(steps))


def judge(
    file: str, kind: str, config: DataConfig, tallied: Tallied, broken: Count | None = None, notes: tuple[str, ...] = ()
) -> Report:
    """The report on `tallied` rows in the format `kind`; `broken` are rows that could not be read at all."""
    broken = broken or Count(0, tallied.rows)
    findings = [_broken(broken), _prompts(config, tallied)]
    findings += [_finding(name, count, config, tallied) for name, count in tallied.counts.items()]
    findings.append(_shuffled(config.checks, tallied.chance_of_random_pairing))
    shown = [item for item in findings if item is not None]
    counts = {name: count.count for name, count in tallied.counts.items() if name not in ("labels", "languages")}
    data = {
        "file": file,
        "format": kind,
        "rows": tallied.rows,
        "broken": broken.count,
        "distinct_prompts": tallied.distinct_prompts,
        "train_rows": tallied.rows - tallied.validation_rows,
        "validation_rows": tallied.validation_rows,
        "max_length": config.max_length,
        **counts,
        "personal_data": tallied.personal_data,
        "shuffled": looks_random(tallied.chance_of_random_pairing),
        "languages": tallied.languages,
        "labels": tallied.labels,
        "lengths": tallied.lengths,
        "notes": list(notes),
        "refused": any(item.severity == "refuse" for item in shown),
        "problems": [f"{item.name}: {item.text}" for item in shown if item.severity in ("warn", "refuse")],
        "checks": [item.as_dict() for item in shown],
    }
    return Report(file, tuple(shown), data)


def _finding(name: str, count: Count, config: DataConfig, tallied: Tallied) -> Finding:
    check = getattr(config.checks, name)
    # `data.on_too_long=refuse` allows no row at all.
    strict = name == "too_long" and config.on_too_long == "refuse"
    action, limit = ("refuse", 0.0) if strict else (check.action, check.above)
    severity = "off" if action == "off" else action if count.share > limit else "ok"
    of = {"leaked": "validation rows", "languages": "sampled rows"}.get(name, "rows")
    text = f"{count.count:,} of {count.of:,} {of} ({count.share:.1%}) {_SAYS[name]}"
    if name == "too_long":
        text += f"={config.max_length} tokens"
    if name in ("personal_data", "languages") and (found := getattr(tallied, name)):
        text += ": " + ", ".join(
            f"{key} {value:.0%}" if value <= 1 and name == "languages" else f"{key} {value:,}"
            for key, value in found.items()
        )
    if count.share > limit:
        text += f"; the limit is {limit:.0%}"
    return Finding(name, severity, count.count, round(count.share, 4), limit, text, count.examples)


def _step(name: str) -> str:
    if name == "broken":
        return "Fix or remove these rows."
    if name == "prompts":
        return "Add rows with other prompts, none over data.max_length, or raise that."
    if name == "too_long":
        return "Shorten these rows, raise data.max_length, or set data.on_too_long=drop to leave them out."
    return f"{_FIX[name]}, or set data.checks.{name}.action=warn."


def _broken(broken: Count) -> Finding | None:
    if not broken.count:
        return None
    text = f"{broken.count:,} row{'s' if broken.count > 1 else ''} cannot be read or trained on"
    return Finding("broken", "refuse", broken.count, round(broken.share, 4), 0.0, text, broken.examples)


def _prompts(config: DataConfig, tallied: Tallied) -> Finding | None:
    # Where a row that is too long refuses the whole, that is the reason to give.
    left = tallied.fitting_prompts if config.on_too_long == "drop" else tallied.distinct_prompts
    if left >= 2:
        return None
    needed = "at least 2 are needed, one to train and one to validate on"
    text = f"{left} distinct prompt{'' if left == 1 else 's'}; {needed}"
    if left < tallied.distinct_prompts:
        long = tallied.counts["too_long"]
        of = f"{long.count:,} of {long.of:,} rows are over data.max_length={config.max_length} tokens"
        text = f"{of}, which leaves {text}"
    return Finding("prompts", "refuse", left, None, None, text)


def _shuffled(checks: ChecksConfig, chance: float | None) -> Finding:
    action = checks.shuffled.action
    if action == "off":
        return Finding("shuffled", "off", 0, None, None, "not looked at")
    if chance is None:
        return Finding("shuffled", "ok", 0, None, None, "too few rows, or too unlike each other, to be told")
    if not looks_random(chance):
        return Finding("shuffled", "ok", 0, None, None, "the answers belong to their prompts")
    text = (
        "the answers' words have no more to do with their prompts' than in a random pairing "
        f"({chance:.0%} of random pairings fit as well, {CLEAR:.0%} is the limit)"
    )
    return Finding("shuffled", action, 1, None, None, text)
