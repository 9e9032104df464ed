"""All that one run came to, the values that `--json` prints of it, and its table of losses."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from registry.versions import Version
from tasks.deploying import Served
from tasks.gate import Verdict
from tasks.progress import StageRecord
from tasks.releasing import Switch
from turnout.references import Adapter, Dataset, Loss, Scores

AS_TRAINED = "NF4, as trained"


@dataclass(frozen=True)
class Finished:
    """What the stages of a run gave; `sweep` has a row for each combination that was tried before it."""

    dataset: Dataset
    adapter: Adapter
    version: Version
    scores: Scores
    served: Served
    verdict: Verdict
    switch: Switch | None
    champion_before: int | None
    stages: Mapping[str, StageRecord]
    sweep: Sequence[Mapping[str, Any]] = ()


def outcome(run: Finished) -> dict[str, Any]:
    """What `turnout run --json` prints. Losses are in nats a token, seconds in wall-clock seconds.

    Where the report is, `report` (a path) and `report_url`, is noted when it is filed.
    """
    version, scores, served, switch = run.version, run.scores, run.served, run.switch
    manifest = version.manifest
    return {
        "name": version.name,
        "version": version.number,
        "label": version.label,
        "base_eval_loss": scores.base.nats,
        "eval_loss": scores.candidate.nats,
        "champion_eval_loss": _nats(scores.champion),
        "served_eval_loss": served.eval_loss,
        "served_base": served.base.name,
        "stop_rate": served.stop_rate,
        "base_eval_loss_original": scores.base_original.nats,
        "eval_loss_original": scores.candidate_original.nats,
        "champion_before": run.champion_before,
        "promoted": switch is not None,
        "gate": {"passed": run.verdict.passed, "rules": [asdict(rule) for rule in run.verdict.rules]},
        "adapter_sha256": manifest.adapter_sha256,
        "dataset_sha256": manifest.dataset_sha256,
        "trainable_params": manifest.trainable_params,
        "total_params": manifest.total_params,
        "engine": served.engine_url,
        "engine_start_seconds": served.engine_start_seconds,
        "others": [asdict(other) for other in served.others],
        "release": asdict(switch) if switch else None,
        "warnings": [*(switch.warnings if switch else ()), *_left_out(run)],
        "stages": {name: asdict(record) for name, record in run.stages.items()},
        "samples": [asdict(sample) for sample in scores.samples],
        "sweep": [dict(row) for row in run.sweep],
        "report": None,
        "report_url": None,
    }


def _left_out(run: Finished) -> list[str]:
    """Why some kinds of engine do not serve the version."""
    of = run.version.served_name
    return [f"{of} gets no traffic on {each.kind}: {each.problem}" for each in run.served.others if each.problem]


def state(result: Mapping[str, Any]) -> str:
    """What became of the version, in a few words."""
    if result["promoted"]:
        return "serves traffic"
    return "registered, not promoted" if result["gate"]["passed"] else "refused by the gate"


def loss_table(scores: Scores, served: Served) -> list[dict[str, Any]]:
    """Rows of the table of losses, in nats a token; `price` is what each base costs against training's."""
    trained = {"base": scores.base, "candidate": scores.candidate}
    rows = [_row(model, AS_TRAINED, loss, None) for model, loss in (*trained.items(), ("champion", scores.champion))]
    if served.eval_loss is not None:
        loss = Loss(served.eval_loss, served.tokens, served.rows)
        rows.append(_row("candidate", f"served by {served.base.name}", loss, scores.candidate))
    for other in served.others:
        if other.eval_loss is not None:
            loss = Loss(other.eval_loss, other.tokens, other.rows)
            rows.append(_row("candidate", f"served by {served.base.name}, {other.kind}", loss, scores.candidate))
    originals = {"base": scores.base_original, "candidate": scores.candidate_original}
    rows += [_row(model, "original, bf16", loss, trained[model]) for model, loss in originals.items()]
    if scores.own_candidate and scores.own_champion:
        own = {"champion": scores.own_champion, "candidate": scores.own_candidate}
        rows += [_row(model, f"{AS_TRAINED}, on the champion's own rows", loss, None) for model, loss in own.items()]
    return rows


def _row(model: str, measured_on: str, loss: Loss | None, trained: Loss | None) -> dict[str, Any]:
    figures: dict[str, Any] = dict.fromkeys(("eval loss", "price", "perplexity", "tokens", "rows"))
    if loss:
        figures |= {"eval loss": round(loss.nats, 4), "perplexity": round(loss.perplexity, 2)}
        figures |= {"tokens": loss.tokens, "rows": loss.rows}
    if loss and trained:
        figures["price"] = round(loss.nats - trained.nats, 4)
    return {"model": model, "measured on": measured_on, **figures}


def _nats(loss: Loss | None) -> float | None:
    return None if loss is None else loss.nats
