"""Name → shape of every tensor of a model: from the headers of its weight files, or from its config."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path

from serving.capacity.keys import Config, number, required
from turnout.errors import BadInput

Shapes = Mapping[str, tuple[int, ...]]

LLAMA_LIKE = frozenset({"llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3"})
"""Families that `family_shapes` builds; a test holds them against transformers' own modules."""
TIED = frozenset({"gemma", "gemma2", "gemma3_text"})
MOST_HEADER_BYTES = 100_000_000


def file_shapes(folder: Path) -> tuple[dict[str, tuple[int, ...]], int]:
    """The tensors in the safetensors files of `folder`, and the files' bytes; empty where the weights are not there.

    Raises:
        BadInput: a file is cut short or no safetensors file.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    files = _weight_files(folder)
    for file in files:
        try:
            with open(file, "rb") as stream:
                (length,) = struct.unpack("<Q", stream.read(8))
                header = json.loads(stream.read(min(length, MOST_HEADER_BYTES)))
            shapes |= {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
        except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{file} is no whole safetensors file: {error}", "Fetch the model again.") from error
    return shapes, sum(file.stat().st_size for file in files)


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values())) if index.is_file() else []
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise BadInput(f"{index} is no index of weights: {error}", "Fetch the model again.") from error
    files = [folder / name for name in names or ["model.safetensors"]]
    return files if all(file.is_file() for file in files) else []


def family_shapes(config: Config) -> dict[str, tuple[int, ...]] | None:
    """The tensors of a decoder of the Llama family, from its config alone; None for any other model."""
    kind = str(config.get("model_type", ""))
    if kind not in LLAMA_LIKE:
        return None
    layers, heads, hidden, inner, vocabulary = required(config, "layers", "heads", "hidden", "inner", "vocabulary")
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    layer = {
        **_attention(config, kind, heads, hidden),
        **_mlp(config, kind, hidden, inner),
        **{f"{norm}.weight": (hidden,) for norm in _norms(kind)},
    }
    for index in range(layers):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (hidden,)
    if not config.get("tie_word_embeddings", kind in TIED):
        shapes["lm_head.weight"] = (vocabulary, hidden)
    return shapes


def _attention(config: Config, kind: str, heads: int, hidden: int) -> dict[str, tuple[int, ...]]:
    size = number(config, "head_dim") or hidden // heads
    queries, keys = heads * size, (number(config, "kv_heads") or heads) * size
    if kind == "phi3":
        return {"self_attn.qkv_proj.weight": (queries + 2 * keys, hidden), "self_attn.o_proj.weight": (hidden, queries)}
    rows = {"q_proj": queries, "k_proj": keys, "v_proj": keys}
    shapes: dict[str, tuple[int, ...]] = {f"self_attn.{name}.weight": (out, hidden) for name, out in rows.items()}
    shapes["self_attn.o_proj.weight"] = (hidden, queries)
    if kind == "qwen2" or config.get("attention_bias"):
        shapes |= {f"self_attn.{name}.bias": (out,) for name, out in rows.items()}
    if kind != "qwen2" and config.get("attention_bias"):
        shapes["self_attn.o_proj.bias"] = (hidden,)
    if kind in ("qwen3", "gemma3_text"):
        shapes |= {"self_attn.q_norm.weight": (size,), "self_attn.k_norm.weight": (size,)}
    return shapes


def _mlp(config: Config, kind: str, hidden: int, inner: int) -> dict[str, tuple[int, ...]]:
    if kind == "phi3":
        return {"mlp.gate_up_proj.weight": (2 * inner, hidden), "mlp.down_proj.weight": (hidden, inner)}
    if kind == "mixtral":
        experts = int(config.get("num_local_experts", 8))
        sizes = {"w1": (inner, hidden), "w2": (hidden, inner), "w3": (inner, hidden)}
        each = {f"mlp.experts.{n}.{name}.weight": shape for n in range(experts) for name, shape in sizes.items()}
        return {"mlp.gate.weight": (experts, hidden), **each}
    rows = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
    shapes: dict[str, tuple[int, ...]] = {f"mlp.{name}.weight": shape for name, shape in rows.items()}
    if config.get("mlp_bias"):
        shapes |= {f"mlp.{name}.bias": (shape[0],) for name, shape in rows.items()}
    return shapes


def _norms(kind: str) -> tuple[str, ...]:
    more = ("pre_feedforward_layernorm", "post_feedforward_layernorm") if kind in ("gemma2", "gemma3_text") else ()
    return ("input_layernorm", "post_attention_layernorm", *more)
