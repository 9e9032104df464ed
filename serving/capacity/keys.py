"""Reads a model's `config.json`, whose keys have other names in every family."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnout.errors import BadInput

Config = Mapping[str, Any]

LANGUAGE_PARTS = ("text_config", "llm_config", "language_config")
NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "n_kv_heads"),
    "hidden": ("hidden_size", "n_embd", "d_model", "model_dim"),
    "head_dim": ("head_dim", "kv_channels"),
    "inner": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "context": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"),
}
MOST_BYTES = 50_000_000
"""Of a config.json; a larger file is something else."""


def read_config(file: Path) -> dict[str, Any]:
    """The JSON object in `file`.

    Raises:
        BadInput: no such file, or no JSON object in it.
    """
    try:
        size = file.stat().st_size
        value = json.loads(file.read_text(encoding="utf-8-sig")) if size <= MOST_BYTES else None
    except OSError as error:
        raise BadInput(
            f"{file} cannot be read: {error.strerror}", "Name a model's folder or its config.json."
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file} is no JSON: {error}", "Name a model's folder or its config.json.") from error
    if not isinstance(value, dict):
        raise BadInput(f"{file} holds no JSON object", "Name a model's folder or its config.json.")
    return value


def language_part(config: Config) -> Config:
    """The part that describes the language model: `text_config` of a multimodal model, else all of it."""
    for name in LANGUAGE_PARTS:
        if isinstance(part := config.get(name), Mapping) and part:
            inherited = {key: config[key] for key in ("architectures", "dtype", "torch_dtype") if key in config}
            return {**inherited, **part}
    return config


def architecture(config: Config) -> str:
    """The model's class, or else its type."""
    classes = config.get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else None
    return str(first or config.get("model_type") or "no architecture named")


def number(config: Config, what: str) -> int | None:
    """The whole number above zero that `config` gives for `what` (a key of NAMES), or None where it has none.

    Raises:
        BadInput: there is something else in its place.
    """
    nested = config.get("attn_config") or {}
    for name in NAMES[what]:
        value = config.get(name, nested.get(name) if isinstance(nested, Mapping) else None)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**40:
            raise BadInput(
                f"{architecture(config)}: {name} is {value!r:.60}, not a whole number above 0", "Check the config.json."
            )
        return value
    return None


def required(config: Config, *what: str) -> list[int]:
    """The numbers that `config` must have.

    Raises:
        BadInput: it lacks some; the message names the architecture and every missing key.
    """
    found = [number(config, each) for each in what]
    missing = [" or ".join(NAMES[each][:2]) for each, value in zip(what, found, strict=True) if value is None]
    if missing:
        raise BadInput(
            f"{architecture(config)} is not an architecture that can be computed: its config.json lacks "
            f"{', '.join(missing)}",
            "Name the config.json of a decoder-only language model.",
        )
    return [value for value in found if value is not None]


def data_type(config: Config) -> str:
    """What the weights are published in, such as bfloat16; bfloat16 where nothing is said."""
    return str(config.get("dtype") or config.get("torch_dtype") or "bfloat16").removeprefix("torch.")


def quantisation(config: Config) -> str | None:
    """How the published weights are quantised, or None."""
    settings = config.get("quantization_config")
    return str(settings.get("quant_method", "unknown")) if isinstance(settings, Mapping) else None
