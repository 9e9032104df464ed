"""What the KV cache of a model takes: layer by layer, a token and a request."""

from dataclasses import dataclass

from serving.capacity.keys import Config, architecture, data_type, language_part, number, quantisation, required
from serving.capacity.windows import ALL_SLIDE, FROM_A_LAYER_ON, FULL, PERIODS, STATE, Span, check_attention, spans
from turnout.errors import BadInput

BLOCK = 16
"""Tokens that a page of the KV cache holds: vLLM's default on GPUs."""
KV_BYTES = {
    **dict.fromkeys(("bf16", "bfloat16", "fp16", "float16"), 2.0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), 1.0),
    **{"fp32": 4.0, "float32": 4.0, "nvfp4": 0.5 + 1 / 16, "q8_0": 34 / 32, "q4_0": 18 / 32},
}
"""Bytes of a value; nvfp4, q8_0 and q4_0 (llama.cpp's) keep a scale for 16 or 32 values."""
PLAIN = frozenset(
    {
        *("llama", "gemma", "falcon", "mpt", "phi", "granite", "olmo", "olmo2", "olmoe", "stablelm", "cohere"),
        *("gpt2", "gptj", "gpt_neox", "gpt_bigcode", "codegen", "opt", "bloom", "persimmon", "dbrx", "nemotron"),
        *("qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_next", "exaone"),
        *("deepseek_v2", "deepseek_v3", "llama4_text", "gemma3n_text", "glm", "glm4", "chatglm", "smollm3"),
        *("ministral", "internlm2", "internlm3", "baichuan", "jamba"),
    }
)
KNOWN = PLAIN | ALL_SLIDE | FROM_A_LAYER_ON | frozenset(PERIODS)


@dataclass(frozen=True)
class Layer:
    """A layer keeps `heads` × `width` values of each of the last `span` tokens; `latent` ones go to every GPU whole."""

    heads: int
    width: int
    span: Span
    latent: bool = False

    def values(self, parallel: int = 1) -> int:
        """Values a token on one of `parallel` GPUs. Heads are shared out; one that does not go round is copied."""
        if self.span == STATE:
            return 0
        return self.width * (1 if self.latent else max(1, -(-self.heads // parallel)))

    def tokens(self, context: int) -> int:
        return min(context, self.span) if isinstance(self.span, int) else context


@dataclass(frozen=True)
class Attention:
    """A model's attention layers, and what there is to say about it."""

    architecture: str
    layers: tuple[Layer, ...]
    heads: int
    context: int | None
    dtype: str
    quantisation: str | None
    notes: tuple[str, ...]

    def bytes_per_token(self, value_bytes: float, parallel: int = 1) -> float:
        """Of one token in all layers, on one of `parallel` GPUs, while no window is full."""
        return value_bytes * sum(layer.values(parallel) for layer in self.layers)

    def bytes_per_request(self, context: int, value_bytes: float, parallel: int = 1, block: int = 1) -> float:
        """Of a request of `context` tokens; each layer's tokens fill whole blocks of `block` tokens."""
        return value_bytes * sum(
            layer.values(parallel) * -(-layer.tokens(context) // block) * block for layer in self.layers
        )

    def check_parallel(self, parallel: int) -> None:
        """Raises BadInput where the engine could not share the attention heads out among `parallel` GPUs."""
        if self.heads % parallel:
            fitting = [each for each in range(1, 17) if self.heads % each == 0]
            raise BadInput(
                f"--tensor-parallel {parallel} does not divide the {self.heads} attention heads of {self.architecture}",
                f"Use one of {', '.join(map(str, fitting))}.",
            )


def read_attention(config: Config) -> Attention:
    """The attention layers that a `config.json` describes.

    Raises:
        BadInput: it describes no decoder, one without a KV cache, or lacks what must be known.
    """
    text = language_part(config)
    _check_decoder(config, text)
    layers, heads = required(text, "layers", "heads")
    kept = spans(text, layers)
    if (latent := text.get("kv_lora_rank")) and isinstance(latent, int):
        rope = text.get("qk_rope_head_dim") or 0
        built = [Layer(1, latent + rope, span, latent=True) for span in kept]
    else:
        built = _grouped(text, layers, heads, kept)
    if not any(layer.values() for layer in built):
        raise BadInput(
            f"{architecture(config)} ({text.get('model_type')}) has no layer with a KV cache",
            "Start the engine and read its own figures.",
        )
    shared = text.get("num_kv_shared_layers") or 0  # Gemma 3n: the last layers read an earlier one's cache
    built[layers - shared :] = [Layer(each.heads, each.width, STATE) for each in built[layers - shared :]]
    return Attention(
        architecture=architecture(config),
        layers=tuple(built),
        heads=heads,
        context=number(text, "context"),
        dtype=data_type(text),
        quantisation=quantisation(config) or quantisation(text),
        notes=tuple(_notes(text, kept, shared)),
    )


def _grouped(text: Config, layers: int, heads: int, kept: list[Span]) -> list[Layer]:
    """Layers that keep keys and values of each KV head; full ones may have sizes of their own (Gemma 4)."""
    kv_heads = _kv_heads(text, heads)
    if heads % kv_heads:
        raise BadInput(
            f"{architecture(text)}: {heads} attention heads cannot share {kv_heads} KV heads alike",
            "Check the config.json.",
        )
    size = number(text, "head_dim")
    if size is None:
        (hidden,) = required(text, "hidden")
        size = hidden // heads
    full_heads, full_size = text.get("num_global_key_value_heads") or kv_heads, text.get("global_head_dim") or size
    return [
        Layer(full_heads, 2 * full_size, span) if span == FULL else Layer(kv_heads, 2 * size, span) for span in kept
    ]


def _kv_heads(text: Config, heads: int) -> int:
    # Falcon's first architecture and GPTBigCode say it with a flag, whatever else stands beside it.
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        return 1
    nested = text.get("attn_config")
    if isinstance(nested, dict) and isinstance(nested.get("kv_n_heads"), int):
        return int(nested["kv_n_heads"])
    return number(text, "kv_heads") or heads


def _check_decoder(config: Config, text: Config) -> None:
    name = architecture(config)
    if config.get("is_encoder_decoder") or name.endswith(("ForMaskedLM", "ForSequenceClassification")):
        raise BadInput(
            f"{name} ({text.get('model_type')}) is no decoder-only language model: it has no KV cache of this kind",
            "Name the config.json of a decoder-only language model.",
        )
    check_attention(text)


def _notes(text: Config, kept: list[Span], shared: int) -> list[str]:
    notes = []
    kind = text.get("model_type")
    if kind not in KNOWN:
        notes.append(
            f"{architecture(text)} (model_type {kind}) is not an architecture that is known here: taken for plain "
            'attention by its keys. Compare with the engine\'s log line "KV cache size".'
        )
    if states := kept.count(STATE):
        notes.append(
            f"{states} of {len(kept)} layers keep a state of fixed size a request, which is not counted: users are an "
            "upper bound."
        )
    windows = [span for span in kept if isinstance(span, int)]
    if windows:
        notes.append(
            f"{len(windows)} of {len(kept)} layers keep the last {windows[0]:,} tokens only; during prefill the engine "
            "keeps those of the running batch too."
        )
    if kind not in KNOWN and isinstance(text.get("sliding_window"), int) and not windows:
        notes.append("sliding_window is left out of account: which layers use it is not known.")
    if shared:
        notes.append(f"The last {shared} layers share an earlier layer's cache.")
    if text.get("index_head_dim"):
        notes.append("The sparse attention's index keys are not counted.")
    return notes
