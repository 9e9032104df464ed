"""The `data.checks` section of a preset: which checks warn or refuse, and from which share of the rows on."""

from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

Action = Literal["off", "warn", "refuse"]


class Check(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """`above` is the share of the rows (0 to 1) over which the check speaks; at or under it, it is only a figure."""

    action: Action
    above: float = Field(0.0, ge=0, le=1)


class YesNoCheck(BaseModel, frozen=True, extra="forbid"):
    """A check of the rows as a whole, which has no share."""

    action: Action


class ChecksConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Every check. Out of the box, what ruins a training or its score refuses, and what may be meant warns.

    `leaked.above` is a share of the validation rows. `similarity` is the Jaccard similarity of two prompts' words
    from which on they are nearly equal.
    """

    duplicates: Check = Check(action="refuse", above=0.3)
    near_duplicates: Check = Check(action="refuse", above=0.5)
    leaked: Check = Check(action="refuse", above=0.05)
    truncated: Check = Check(action="refuse", above=0.3)
    shuffled: YesNoCheck = YesNoCheck(action="refuse")
    answer_in_prompt: Check = Check(action="refuse", above=0.3)
    damaged: Check = Check(action="refuse", above=0.02)
    too_long: Check = Check(action="warn", above=0.0)
    labels: Check = Check(action="warn", above=0.9)
    languages: Check = Check(action="warn", above=0.5)
    personal_data: Check = Check(action="warn", above=0.0)
    similarity: float = Field(0.8, ge=0.5, le=1)

    @model_validator(mode="before")
    @classmethod
    def half_set_checks_keep_the_rest(cls, values: Any) -> Any:
        """`leaked.action=warn` alone leaves `leaked.above` as it is out of the box."""
        if not isinstance(values, dict):
            return values
        defaults = {name: field.default for name, field in cls.model_fields.items()}
        return {
            name: {**vars(defaults[name]), **value}
            if isinstance(value, dict) and isinstance(defaults.get(name), BaseModel)
            else value
            for name, value in values.items()
        }
