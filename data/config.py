"""The `data` section of a preset."""

from typing import Literal

from pydantic import BaseModel, Field

from data.checks.config import ChecksConfig


class DataConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Where the rows come from and how they are prepared.

    `path` is a file (JSON, JSONL, CSV, Parquet), a folder of such files, a Hugging Face dataset id, or `sample:NAME`
    for a dataset that ships with Turnout. `max_length` is in the base model's tokens, prompt and answer together.
    """

    path: str = "sample:incidents"
    split: str = "train"
    validation_fraction: float = Field(0.15, gt=0, lt=1)
    max_length: int = Field(512, ge=16)
    on_too_long: Literal["drop", "refuse"] = "drop"
    checks: ChecksConfig = ChecksConfig()
