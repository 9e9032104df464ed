"""Loads models as training saw them, for scoring; imported by child processes alone."""

from typing import Any

from tasks.bases import parity_folder
from turnout.files import exclusive
from turnout.references import Base


def at_training_precision(base: Base, double_quantisation: bool, *, write_parity: bool) -> Any:
    """The model with the weights that training computed with: NF4, or its bf16 twin where that is there, which is
    faster. With `write_parity` the twin is written where it is not there yet."""
    from tasks.quantise import fits_in_bf16, load_bf16

    twin = parity_folder(base, double_quantisation)
    fits = fits_in_bf16(base.path)
    if not (twin.is_dir() and fits):
        from tasks.parity import write_parity as write
        from tasks.quantise import load_nf4

        model = load_nf4(base.path, double_quantisation)
        if write_parity and not twin.is_dir():
            with exclusive(twin.with_suffix(".lock")):
                if not twin.is_dir():
                    write(model, base, twin)
        if not (twin.is_dir() and fits):
            return model
        del model
    return load_bf16(twin)


def with_adapters(model: Any, adapters: dict[str, str]) -> Any:
    """The model, ready to be scored, with the adapters in these folders under their names; the first one is active."""
    from peft import PeftModel

    from tasks.quantise import compute_dtype

    for name, folder in adapters.items():
        if isinstance(model, PeftModel):
            model.load_adapter(folder, adapter_name=name)
        else:
            model = PeftModel.from_pretrained(model, folder, adapter_name=name)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(compute_dtype())
    return model.eval()
