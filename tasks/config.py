"""The `train`, `score` and `gate` sections of a preset."""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from tasks.answers_config import FormatConfig, JudgeConfig, MetricsConfig


class TrainConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """NF4 QLoRA. `batch_size` × `gradient_accumulation` rows make one optimiser step.

    With `packing`, a row is as many whole conversations as fit into `packed_length` tokens.
    """

    seed: int = Field(42, ge=0, lt=2**32)
    learning_rate: float = Field(2e-4, gt=0)
    lr_scheduler: Literal["linear", "cosine", "constant"] = "linear"
    warmup_steps: int = Field(0, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    epochs: float = Field(1.0, gt=0)
    max_steps: int | None = Field(None, gt=0)
    batch_size: int = Field(4, ge=1)
    gradient_accumulation: int = Field(1, ge=1)
    lora_rank: int = Field(16, ge=1)
    lora_alpha: float = Field(16, gt=0)
    lora_dropout: float = Field(0.05, ge=0, lt=1)
    target_modules: tuple[str, ...] | Literal["all-linear"] = "all-linear"
    double_quantisation: bool = True
    packing: bool = False
    packed_length: int = Field(2048, ge=64)
    gradient_checkpointing: bool = False
    evaluate_each_epoch: bool = False
    checkpoint_every_steps: int = Field(20, ge=1)
    memory_budget_gb: float | None = Field(None, gt=0)

    @field_validator("target_modules", mode="before")
    @classmethod
    def targets_are_a_list(cls, value: Any) -> Any:
        if value == ["all-linear"]:
            return "all-linear"
        if value != "all-linear" and (not isinstance(value, list | tuple) or "all-linear" in value):
            raise ValueError(
                f"train.target_modules={value!r:.100}: give a list such as [q_proj, v_proj], or all-linear"
            )
        return value

    @model_validator(mode="after")
    def targets_are_named(self) -> Self:
        if not self.target_modules:
            raise ValueError('train.target_modules is empty: name at least one module, or "all-linear"')
        if "lm_head" in self.target_modules:
            raise ValueError("train.target_modules names lm_head, which the serving engine cannot adapt: leave it out")
        return self


NOT_IN_THE_RESULT = {"checkpoint_every_steps", "memory_budget_gb", "evaluate_each_epoch"}
"""Settings of a training that change how its result is reached, or what is seen meanwhile, but not the result."""


def train_settings(config: TrainConfig) -> dict[str, Any]:
    """The settings that a training's result depends on, as JSON values; their digest names the training."""
    return config.model_dump(mode="json", exclude=NOT_IN_THE_RESULT)


class ScoreConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """How candidates are scored: at most `max_rows` validation rows, picked by content hash.

    The engine that is to serve a candidate answers `answers` validation prompts, in at most `answer_tokens`
    tokens each.
    """

    max_rows: int = Field(256, ge=1)
    batch_size: int = Field(8, ge=1)
    samples: int = Field(5, ge=0)
    sample_tokens: int = Field(48, ge=1)
    answers: int = Field(16, ge=0)
    answer_tokens: int = Field(128, ge=1)


class GateConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What a candidate must show before it gets traffic; margins are in nats a token.

    `better_than_base_by` and `better_than_champion_by` must be exceeded by the whole `confidence` interval of a
    paired bootstrap over validation rows with `resamples` draws; the mean alone must stay within
    `worse_than_champion_by`. `stop_rate` is the least share of the engine's answers that end by themselves.
    `new_base` lets a candidate pass whose base is not the champion's, though their losses cannot be compared. With
    `approval: required`, what passed waits in Prefect's page for a person before it gets traffic.
    """

    better_than_base_by: float = Field(0.0, ge=0)
    worse_than_champion_by: float = Field(0.02, ge=0)
    better_than_champion_by: float | None = Field(None, ge=0)
    new_base: bool = False
    approval: Literal["none", "required"] = "none"
    confidence: float = Field(0.95, gt=0, lt=1)
    resamples: int = Field(2000, ge=100, le=100_000)
    stop_rate: float | None = Field(0.8, ge=0, le=1)
    format: FormatConfig | None = None
    metrics: MetricsConfig | None = None
    judge: JudgeConfig | None = None

    @property
    def asks_for_answers(self) -> str:
        """The first rule that weighs the engine's answers; empty where none does."""
        return next(
            (name for name in ("stop_rate", "format", "metrics", "judge") if getattr(self, name) is not None), ""
        )
