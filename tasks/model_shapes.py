"""Finds out what a model is made of: its config, and the shapes of its tensors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving.capacity.attention import Attention, read_attention
from serving.capacity.keys import language_part, read_config
from serving.capacity.shapes import family_shapes, file_shapes
from tasks.bases import BUNDLED, base_on_disk, resolve_base
from tasks.hub import cached_snapshot, is_hub_id
from turnout.errors import BadInput

Shapes = dict[str, tuple[int, ...]]
Tell = Callable[[str], None]


def find_config(model: str, tell: Tell) -> Path:
    """The config.json of a folder, of that very file, of `bundled`, or of a hub id in the local cache.

    Raises:
        BadInput: there is none; the message says what was tried.
    """
    if model == BUNDLED:
        base = base_on_disk(BUNDLED) or resolve_base(BUNDLED, tell)
        return Path(base.path) / "config.json"
    try:
        path = Path(model).expanduser()
        if path.is_dir():
            path = path / "config.json"
        if path.is_file():
            return path
    except (OSError, ValueError, RuntimeError) as error:
        raise BadInput(f"--model {model!r:.200} cannot be a path: {error}", "Check it.") from None
    if path.name != "config.json" and is_hub_id(model) and (snapshot := cached_snapshot(model)):
        return snapshot / "config.json"
    raise BadInput(
        f"--model {model!r:.200}: there is no such file or folder (looked for {path.absolute()}), and no such model in "
        "the hub's local cache",
        "Name a model's folder, its config.json, `bundled`, or an id that was fetched before.",
    )


def describe_model(file: Path, tell: Tell) -> tuple[Attention, Shapes | None]:
    """The attention layers and the tensors of the model whose config is `file`; None for tensors that are not known.

    Tensors are read from the weights' headers where those lie beside it and are not quantised, else computed from the
    config; where its architecture is none of the common ones, transformers builds the model without its weights.

    Raises:
        BadInput: no decoder, or a config that lacks what must be known.
    """
    config = read_config(file)
    shapes: Shapes | None = None
    try:
        attention = read_attention(config)
    except BadInput as error:
        if "lacks" not in error.message or not (complete := _completed(config, tell)):
            raise
        attention = read_attention(complete)
    if attention.quantisation is None and file.name == "config.json":
        shapes, _ = file_shapes(file.parent)
    if not shapes and language_part(config) is config:
        shapes = family_shapes(config)
    return attention, shapes or _built(config, tell)


def _completed(config: dict[str, Any], tell: Tell) -> dict[str, Any] | None:
    """The config with the defaults of its class, which published ones leave out; None for classes not known."""
    tell("Reading the architecture's defaults")
    from transformers import AutoConfig

    try:
        return dict(AutoConfig.for_model(**config).to_dict())
    except Exception:  # whatever a config that is none of its class's raises there
        return None


def _built(config: dict[str, Any], tell: Tell) -> Shapes | None:
    """The tensors of the model that transformers makes of `config`, without memory for them; None where it cannot."""
    tell("Building the model without its weights")
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    plain = {key: value for key, value in config.items() if key not in ("quantization_config", "auto_map")}
    for kind in (AutoModelForCausalLM, AutoModelForImageTextToText):
        try:
            settings = AutoConfig.for_model(**plain)
            if "tie_word_embeddings" not in plain and hasattr(settings, "text_config"):
                # Transformers 5 ties a multimodal model's head by default; the language part's own default is right.
                settings.tie_word_embeddings = settings.text_config.tie_word_embeddings
            with torch.device("meta"):
                model = kind.from_config(settings)
        except Exception:  # noqa: S112 - another class may know it; none is no failure of the command
            continue
        return {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    return None
