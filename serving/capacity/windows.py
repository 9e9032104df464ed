"""Which layers of a model keep every token, which only the last ones, and which a state in place of tokens."""

from collections.abc import Sequence

from serving.capacity.keys import Config, architecture
from turnout.errors import BadInput

FULL, STATE = "full", "state"
Span = int | str
"""What a layer keeps: FULL, STATE, or the number of tokens of its window."""

PERIODS = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4, "gpt_oss": 2, "exaone4": 4, "olmo3": 4}
"""Of so many layers one attends to everything, the others to a window, where `layer_types` does not say."""
ALL_SLIDE = frozenset({"mistral", "mixtral", "phi3", "phimoe", "starcoder2", "phi4mm"})
FROM_A_LAYER_ON = frozenset({"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"})
NO_ATTENTION = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"})
ATTENTION_TYPES = frozenset({"full_attention", "attention", "hybrid", "global"})
STATE_KEYS = ("mamba_d_state", "ssm_state_size", "ssm_cfg", "state_size", "linear_num_value_heads", "lru_width")


def check_attention(config: Config) -> None:
    """Raises BadInput where the model has no attention layer."""
    if config.get("model_type") in NO_ATTENTION:
        raise _no_kv_cache(config, "every layer keeps a state of fixed size a request, and there is no KV cache")


def spans(config: Config, layers: int) -> list[Span]:
    """What each of the layers keeps.

    Raises:
        BadInput: nothing of the sort is known of this architecture.
    """
    kind = str(config.get("model_type", ""))
    if (named := _named_types(config, layers)) is not None:
        return [_span(config, each) for each in named]
    if states := [key for key in STATE_KEYS if config.get(key)]:
        raise _no_kv_cache(
            config, f"{', '.join(states)} tells of layers with a state, and layer_types does not say which"
        )
    return _from_window(config, kind, layers)


def _from_window(config: Config, kind: str, layers: int) -> list[Span]:
    window = config.get("sliding_window")
    if isinstance(chunk := config.get("attention_chunk_size"), int):
        every = config.get("no_rope_layer_interval") or 4
        return [FULL if (layer + 1) % every == 0 else chunk for layer in range(layers)]
    if not isinstance(window, int) or window <= 0 or config.get("use_sliding_window") is False:
        return [FULL] * layers
    if kind in ALL_SLIDE:
        return [window] * layers
    if kind in FROM_A_LAYER_ON:
        first = config.get("max_window_layers", layers) if config.get("use_sliding_window") else layers
        return [window if layer >= first else FULL for layer in range(layers)]
    period = config.get("sliding_window_pattern") or PERIODS.get(kind)
    if isinstance(period, str):  # a letter a layer: L for local, G for global
        return [window if period[layer % len(period)] == "L" else FULL for layer in range(layers)]
    if isinstance(period, int) and period > 0:
        return [FULL if (layer + 1) % period == 0 else window for layer in range(layers)]
    return [FULL] * layers


def _named_types(config: Config, layers: int) -> Sequence[str] | None:
    """A type for each layer, as the config spells them out, or None where it does not."""
    types = config.get("layer_types") or config.get("layers_block_type")
    if types is None and isinstance(pattern := config.get("hybrid_override_pattern"), str):
        # Nemotron-H: M for Mamba, * for attention, - for a layer that is an MLP only.
        types = ["attention" if letter == "*" else "mamba" for letter in pattern]
    if types is None and isinstance(period := config.get("attn_layer_period"), int) and period > 0:
        offset = config.get("attn_layer_offset", 0)
        types = ["attention" if layer % period == offset else "mamba" for layer in range(layers)]
    if types is None and isinstance(every := config.get("full_attention_interval"), int) and every > 0:
        types = ["linear_attention" if (layer + 1) % every else "full_attention" for layer in range(layers)]
    if types is None:
        return None
    if not isinstance(types, list) or len(types) != layers:
        count = len(types) if isinstance(types, list) else repr(types)
        raise BadInput(f"{architecture(config)}: layer_types has {count} entries for {layers} layers", "Check it.")
    return [str(each) for each in types]


def _span(config: Config, kind: str) -> Span:
    if kind == "sliding_attention":
        return config.get("sliding_window") or FULL
    if kind == "chunked_attention":
        return config.get("attention_chunk_size") or FULL
    return FULL if kind in ATTENTION_TYPES else STATE


def _no_kv_cache(config: Config, reason: str) -> BadInput:
    return BadInput(
        f"{architecture(config)} ({config.get('model_type')}) cannot be computed: {reason}",
        "Start the engine and read its own figures; what is computed here is the KV cache of attention layers.",
    )
