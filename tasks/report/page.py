"""The report of one run as a self-contained HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.report.outcome import Finished, loss_table, state
from turnout import pages
from turnout.files import read_json
from turnout.references import Answer, Sample

if TYPE_CHECKING:
    from markupsafe import Markup

CHECK_FILE = "check.json"
"""What the data check found, beside the prepared rows."""

_FACTS = (
    ("base", "base"),
    ("revision of the base", "base_revision"),
    ("digest of the base", "base_sha256"),
    ("digest of the adapter", "adapter_sha256"),
    ("bytes", "adapter_bytes"),
    ("rank", "rank"),
    ("alpha", "alpha"),
    ("dropout", "dropout"),
    ("target modules", "target_modules"),
    ("trained parameters", "trainable_params"),
    ("parameters", "total_params"),
    ("dataset", "dataset_source"),
    ("digest of the dataset", "dataset_sha256"),
    ("rows", "rows"),
    ("training rows", "train_rows"),
    ("validation rows", "validation_rows"),
    ("digest of the settings", "train_digest"),
    ("digest of the tokenizer", "tokenizer_sha256"),
    ("digest of the template", "template_sha256"),
    ("ids that end an answer", "eos_ids"),
    ("trained on", "hardware"),
    ("libraries", "libraries"),
    ("created", "created"),
    ("commit", "git_commit"),
)


def report_page(run: Finished, result: Mapping[str, Any], plots: Mapping[str, bytes]) -> str:
    """`result` is the run's outcome, `plots` the PNG files by what they show."""
    parts = [
        *_warnings(result),
        pages.section("Gate", pages.table([_rule(rule) for rule in result["gate"]["rules"]])),
        *_losses(run),
        *_sweep(run),
        pages.section("Training and rows", *(pages.image(data, what) for what, data in plots.items())),
        *_check(Path(run.dataset.path)),
        pages.section("Answers", *answers(run.scores.samples, run.served.answers)),
        pages.section("Version", pages.table(facts(run))),
        pages.section("Stages", pages.table(_stages(result))),
    ]
    before = "none" if run.champion_before is None else f"v{run.champion_before}"
    subtitle = f"Registered {run.version.manifest.created}. Champion before: {before}."
    return pages.page(f"{run.version.served_name}: {state(result)}", *parts, subtitle=subtitle)


def _stages(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"stage": name, "seconds": each["seconds"], "kept": "kept" if each["cached"] else ""}
        for name, each in result["stages"].items()
    ]


def sweep_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One combination of a sweep as a row of a table."""
    settings = {key: _plain(value) for key, value in row["settings"].items()}
    loss = None if row["eval_loss"] is None else round(row["eval_loss"], 4)
    outcome = row["error"] or ("went to the gate" if row["chosen"] else "")
    return {**settings, "eval loss": loss, "seconds": row["seconds"], "outcome": outcome}


def answers(samples: Sequence[Sample], served: Sequence[Answer]) -> "list[Markup]":
    """Tables of answers to the same prompts side by side, and of what the engine answered besides."""
    engine = {(answer.prompt, answer.expected): answer for answer in served}
    beside = []
    for sample in samples:
        answer = engine.pop((sample.prompt, sample.expected), None)
        row = {"prompt": sample.prompt, "expected": sample.expected, "base": sample.base}
        row |= {"champion": sample.champion} if sample.champion is not None else {}
        row |= {"candidate": sample.candidate} | ({"served": _ended(answer)} if answer else {})
        beside.append(row)
    rest = [{"prompt": each.prompt, "expected": each.expected, "served": _ended(each)} for each in engine.values()]
    return [pages.table(beside), *([pages.text("Further answers of the engine"), pages.table(rest)] if rest else [])]


def facts(run: Finished) -> list[dict[str, Any]]:
    """The manifest's facts as rows of a table."""
    manifest = run.version.manifest.model_dump(mode="json")
    rows = [{"fact": fact, "value": _plain(manifest[key])} for fact, key in _FACTS if manifest[key] is not None]
    return [*rows, {"fact": "training, seconds", "value": str(run.adapter.train_seconds)}]


def _rule(rule: Mapping[str, Any]) -> "dict[str, Any]":
    verdict = pages.mark("passed", "good") if rule["passed"] else pages.mark("refused", "bad")
    interval = rule["interval"]
    return {
        "rule": rule["name"],
        "verdict": verdict,
        "figure": _figure(rule["figure"]),
        "limit": _figure(rule["limit"]),
        "interval": None if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}",
        "in words": rule["text"],
    }


def _warnings(result: Mapping[str, Any]) -> "list[Markup]":
    words = [pages.text(warning, "warn") for warning in result["warnings"]]
    return [pages.section("Warnings", *words)] if words else []


def _losses(run: Finished) -> "list[Markup]":
    note = run.scores.own_note
    table = pages.table(loss_table(run.scores, run.served))
    return [pages.section("Losses, nats a token", table, *([pages.text(note)] if note else []))]


def _sweep(run: Finished) -> "list[Markup]":
    return [pages.section("Sweep", pages.table([sweep_row(row) for row in run.sweep]))] if run.sweep else []


def _check(folder: Path) -> "list[Markup]":
    """What the data check found, where one was made of these rows."""
    report = read_json(folder / CHECK_FILE)
    if report is None:
        return []
    kinds = {"ok": "good", "warn": "warn", "refuse": "bad"}
    rows = [
        {
            "check": check["name"],
            "outcome": pages.mark(check["severity"], kinds.get(check["severity"], "")),
            "rows": check["count"],
            "share": _figure(check["share"]),
            "limit": _figure(check["limit"]),
            "in words": check["text"],
        }
        for check in report["checks"]
    ]
    return [pages.section("Data check", pages.text(f"{report['rows']:,} rows, {report['format']}"), pages.table(rows))]


def _ended(answer: Answer) -> str:
    return answer.text if answer.finish_reason == "stop" else f"{answer.text} … ({answer.finish_reason})"


def _figure(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, Mapping) else str(value)
