"""Checks a preset against this machine before anything is started."""

from collections.abc import Sequence

from flows.config import PipelineConfig
from tasks.config import TrainConfig
from tasks.preflight import preflight
from turnout.paths import home


def check(config: PipelineConfig, trainings: Sequence[TrainConfig] = ()) -> None:
    """`tasks.preflight` with the sections of `config`; `trainings` are a sweep's, in place of the preset's own.

    Raises what that raises.
    """
    first, *others = trainings or [config.train]
    preflight(
        home=home(),
        base=config.base,
        data=config.data,
        train=first,
        serving=config.serving,
        gate=config.gate,
        others=others,
    )
