"""The frequent, cheap flow: looks for reasons to retrain, and tells them as Prefect events."""

from dataclasses import asdict
from typing import Any

from prefect import flow

from flows.presets.loading import load_preset
from tasks import telling
from tasks.bases import resolve_base
from tasks.progress import watched
from tasks.steps import find_champion
from tasks.watching import data_news, drift_news


@flow(name="watch")
def watch(preset: str = "tiny-cpu", overrides: list[str] | None = None) -> dict[str, Any]:
    """Tell of new data (`turnout.data.changed`) and of drift (`turnout.drift`), each once; train nothing.

    Both are seen against the champion: without one there is no news. The events start the deployment `retrain`, which
    trains on `data.path` as it is then: drift alone, without new rows there, trains nothing.

    Args:
        preset: a preset's name, or the path of a YAML file on the machine that runs the flow.
        overrides: settings of the form `train.epochs=3`, applied to the preset in order.
    """
    config = load_preset(preset, overrides or [])
    with watched():
        champion = find_champion(config.name)
        news, drift = data_news(config.data, champion), None
        if config.retrain.fresh and champion:
            fresh = config.data.model_copy(update={"path": config.retrain.fresh})
            drift = telling.drift(config.retrain, config.train, fresh, champion, resolve_base(config.base))
            news += drift_news(drift)
        told = telling.tell(config.name, news, {"preset": preset, "overrides": overrides or []})
    found = {"news": [asdict(each) for each in news], "drift": asdict(drift) if drift else None}
    return {"name": config.name, "told": told, **found}
