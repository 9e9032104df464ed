"""The `retrain` section of a preset."""

from typing import Self

from pydantic import BaseModel, Field, model_validator


class DriftConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """How far fresh rows may be from what the champion learnt before it counts as drift; null leaves a figure out.

    `length` limits the Kolmogorov-Smirnov statistic of the prompts' lengths, `vocabulary` the Jensen-Shannon distance
    of the prompts' tokens, both from 0 to 1; `loss` is how many nats a token the champion's loss on the fresh rows may
    be above its own eval loss.
    """

    length: float | None = Field(0.2, gt=0, le=1)
    vocabulary: float | None = Field(0.3, gt=0, le=1)
    loss: float | None = Field(0.2, gt=0)


class RetrainConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What the flow `watch` looks at besides `data.path`.

    `fresh` names labelled rows from the present traffic, as `data.path` does. At most `max_rows` of them, picked by
    content hash, are compared; under `min_rows` they say nothing.
    """

    fresh: str | None = None
    min_rows: int = Field(20, ge=2)
    max_rows: int = Field(256, ge=2)
    drift: DriftConfig = DriftConfig()

    @model_validator(mode="after")
    def enough_rows_are_compared(self) -> Self:
        if self.min_rows > self.max_rows:
            raise ValueError(
                f"retrain.min_rows={self.min_rows} is above retrain.max_rows={self.max_rows}, so that no rows would "
                "ever say anything"
            )
        return self
