"""The outcome of a run: the values that `--json` prints, and a page of Markdown for people."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from registry.runs import log_report_files
from registry.store import connect
from registry.versions import Version
from tasks.deploying import Served
from tasks.gate import Verdict
from tasks.progress import StageRecord
from tasks.releasing import Switch
from turnout.files import write_atomically
from turnout.paths import home
from turnout.references import Loss, Scores


def outcome(
    version: Version,
    scores: Scores,
    served: Served,
    verdict: Verdict,
    switch: Switch | None,
    champion_before: int | None,
    stages: Mapping[str, StageRecord],
) -> dict[str, Any]:
    """What `turnout run --json` prints. Losses are in nats a token, seconds in wall-clock seconds."""
    manifest = version.manifest
    return {
        "name": version.name,
        "version": version.number,
        "label": version.label,
        "base_eval_loss": scores.base.nats,
        "eval_loss": scores.candidate.nats,
        "champion_eval_loss": scores.champion.nats if scores.champion else None,
        "served_eval_loss": served.eval_loss,
        "served_base": served.base.name,
        "base_eval_loss_original": scores.base_original.nats,
        "eval_loss_original": scores.candidate_original.nats,
        "champion_before": champion_before,
        "promoted": switch is not None,
        "gate": {"passed": verdict.passed, "rules": [asdict(rule) for rule in verdict.rules]},
        "adapter_sha256": manifest.adapter_sha256,
        "dataset_sha256": manifest.dataset_sha256,
        "trainable_params": manifest.trainable_params,
        "total_params": manifest.total_params,
        "engine": served.engine_url,
        "engine_start_seconds": served.engine_start_seconds,
        "release": asdict(switch) if switch else None,
        "warnings": list(switch.warnings) if switch else [],
        "stages": {name: asdict(record) for name, record in stages.items()},
        "samples": [asdict(sample) for sample in scores.samples],
    }


def loss_table(scores: Scores, served: Served) -> list[dict[str, Any]]:
    """Rows of the table of losses, in nats a token."""

    def row(what: str, precision: str, loss: Loss | None) -> dict[str, Any]:
        if loss is None:
            return {"model": what, "measured on": precision, "eval loss": None, "perplexity": None, "tokens": None}
        figures = {"eval loss": round(loss.nats, 4), "perplexity": round(loss.perplexity, 2), "tokens": loss.tokens}
        return {"model": what, "measured on": precision, **figures}

    rows = [
        row("base", "NF4, as trained", scores.base),
        row("candidate", "NF4, as trained", scores.candidate),
        row("champion", "NF4, as trained", scores.champion),
        row("base", "original, bf16", scores.base_original),
        row("candidate", "original, bf16", scores.candidate_original),
    ]
    if served.eval_loss is not None:
        rows.append(
            row("candidate", f"served by {served.base.name}", Loss(served.eval_loss, served.tokens, served.rows))
        )
    return rows


def markdown(result: Mapping[str, Any], losses: list[dict[str, Any]]) -> str:
    """The report of one run."""
    state = "serves traffic" if result["promoted"] else "registered, not promoted"
    before = result["champion_before"]
    was = "there was none" if before is None else f"v{before}"
    lines = [
        f"# {result['name']}-v{result['version']}: {state}",
        "",
        f"Champion before: {was}. Adapter `{result['adapter_sha256'][:12]}`, "
        f"dataset `{result['dataset_sha256'][:12]}`, "
        f"{result['trainable_params']:,} of {result['total_params']:,} parameters trained.",
        "",
        "## Losses, nats a token",
        "",
        *_table(losses),
        "",
        "## Gate",
        "",
        *_table(
            [
                {
                    "rule": rule["name"],
                    "verdict": "passed" if rule["passed"] else "**refused**",
                    "figures": rule["text"],
                }
                for rule in result["gate"]["rules"]
            ]
        ),
        "",
        "## Answers",
        "",
    ]
    for sample in result["samples"]:
        lines += [f"**{_line(sample['prompt'])}**", ""]
        answers = {key: sample[key] for key in ("expected", "base", "champion", "candidate") if sample[key] is not None}
        lines += [*_table([{"model": key, "answer": _line(text)} for key, text in answers.items()]), ""]
    stages = [
        {"stage": name, "seconds": each["seconds"], "kept": each["cached"]} for name, each in result["stages"].items()
    ]
    return "\n".join([*lines, *_warnings(result), "## Stages", "", *_table(stages), ""])


def _warnings(result: Mapping[str, Any]) -> list[str]:
    points = [f"- {_line(warning)}" for warning in result["warnings"]]
    return ["## Warnings", "", *points, ""] if points else []


def _table(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    head = list(rows[0])
    body = ["| " + " | ".join("" if row[key] is None else str(row[key]) for key in head) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body]


def _line(text: str) -> str:
    """`text` on one line of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def file_report(version: Version, page: str) -> None:
    """Keep the report in the home and with the MLflow run."""
    here = home()
    file = here.reports / f"{version.served_name}.md"
    write_atomically(file, page)
    log_report_files(connect(here), version.run_id, [file])
