"""A base model small enough to train in seconds, and rows that it can learn: real files, real tokenizer."""

import json
from pathlib import Path
from typing import Any

from data.config import DataConfig
from data.prepare import prepare
from tasks.base_folder import describe
from tasks.tensors_file import write_tensors
from turnout.files import write_json
from turnout.references import Base, Dataset

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS = 64, 128, 2, 4, 2
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def write_tokenizer(folder: Path) -> int:
    """Bytes as tokens, and three special ones; gives the vocabulary's size."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<|end|>", "<|start|>", "<|pad|>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|end|>", "pad_token": "<|pad|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    write_json(folder / "tokenizer_config.json", settings)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return len(alphabet) + 3


def shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    """A Qwen2: biases on q, k and v, tied embeddings."""
    head = HIDDEN // HEADS
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, HIDDEN)}
    for layer in range(LAYERS):
        sizes = {
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.k_proj": (KV_HEADS * head, HIDDEN),
            "self_attn.v_proj": (KV_HEADS * head, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN),
            "mlp.gate_proj": (INNER, HIDDEN),
            "mlp.up_proj": (INNER, HIDDEN),
            "mlp.down_proj": (HIDDEN, INNER),
        }
        for name, (rows, columns) in sizes.items():
            found[f"model.layers.{layer}.{name}.weight"] = (rows, columns)
            if name[10:] in ("q_proj", "k_proj", "v_proj"):
                found[f"model.layers.{layer}.{name}.bias"] = (rows,)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"model.layers.{layer}.{norm}.weight"] = (HIDDEN,)
    return found | {"model.norm.weight": (HIDDEN,)}


def make_base(folder: Path, **constant: float) -> Base:
    """The toy base in `folder`; `constant` fills the tensor of that name (with `_` for `.`) with one value."""
    import numpy as np

    folder.mkdir(parents=True)
    vocabulary = write_tokenizer(folder)
    random = np.random.default_rng(0)

    def values(name: str, shape: tuple[int, ...]) -> Any:
        fill = constant.get(name.replace(".", "_"), 1.0 if "norm" in name else None)
        tensor = np.full(shape, fill) if fill is not None else random.normal(0, 0.15, shape)
        return np.ascontiguousarray(tensor, dtype=np.float32)

    tensors = shapes(vocabulary)
    kinds = {name: ("F32", shape) for name, shape in tensors.items()}
    write_tensors(folder / "model.safetensors", kinds, (values(name, shape) for name, shape in tensors.items()))
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "dtype": "float32",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "vocab_size": vocabulary,
        "tie_word_embeddings": True,
        "eos_token_id": vocabulary - 3,
        "pad_token_id": vocabulary - 1,
    }
    write_json(folder / "config.json", config)
    return describe(folder, base_id=f"toys/{folder.name}", name=folder.name)


def make_dataset(folder: Path, base: Base, rows: int = 60) -> Dataset:
    """Questions after numbers, whose answers are all of one form."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "rows.jsonl"
    lines = [{"instruction": f"n{number}", "output": "ok " * (1 + number % 3)} for number in range(rows)]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return prepare(DataConfig(path=str(source), max_length=128), base, folder / "prepared")
