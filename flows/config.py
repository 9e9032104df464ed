"""The preset: every setting of one pipeline, checked when it is loaded."""

from typing import Self

from pydantic import BaseModel, Field, field_validator, model_validator

from data.config import DataConfig
from registry.names import check_name
from serving.config import VLLM_LORA_RANKS, ServingConfig
from tasks.config import GateConfig, ScoreConfig, TrainConfig
from tasks.retrain_config import RetrainConfig


class PipelineConfig(BaseModel, frozen=True, extra="forbid"):
    """One adapter's pipeline. `base` is `bundled`, a folder or a hub id; `label` is free text such as v1.0.0."""

    name: str
    base: str = "bundled"
    label: str | None = Field(None, max_length=100)
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    score: ScoreConfig = ScoreConfig()
    gate: GateConfig = GateConfig()
    serving: ServingConfig = ServingConfig()
    retrain: RetrainConfig = RetrainConfig()

    @field_validator("name")
    @classmethod
    def name_is_an_adapter_name(cls, name: str) -> str:
        return check_name(name)

    @model_validator(mode="after")
    def name_is_not_the_base(self) -> Self:
        own = self.base.rstrip("/").rsplit("/", 1)[-1].lower()
        taken = {own, f"{own}-nf4"}
        if self.base == "bundled":
            taken |= {"smollm2-135m-instruct", "smollm2-135m-instruct-nf4"}
        if self.name in taken:
            raise ValueError(f"name={self.name!r} is what the base model answers under: choose another")
        return self

    @model_validator(mode="after")
    def adapter_is_servable(self) -> Self:
        rank = self.train.lora_rank
        limit = self.serving.max_lora_rank or VLLM_LORA_RANKS[-1]
        if rank > limit:
            raise ValueError(
                f"train.lora_rank={rank} cannot be served: raise serving.max_lora_rank (now {limit}, "
                f"at most {VLLM_LORA_RANKS[-1]}) or lower the rank"
            )
        return self

    @model_validator(mode="after")
    def the_gate_gets_answers(self) -> Self:
        if self.gate.asks_for_answers and not self.score.answers:
            raise ValueError(
                f"score.answers=0 leaves gate.{self.gate.asks_for_answers} nothing to measure: raise the former, or "
                "set the latter to null"
            )
        return self

    @model_validator(mode="after")
    def rows_fit_the_engine(self) -> Self:
        rows, context = self.data.max_length, self.serving.max_model_len
        # The proof sends whole rows and asks for one token more.
        if rows + 1 > context:
            raise ValueError(
                f"data.max_length={rows} does not fit serving.max_model_len={context}, which must be larger by at "
                "least 1: raise the latter or lower the former"
            )
        return self
