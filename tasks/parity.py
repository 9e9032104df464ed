"""Writes a base's parity twin: its linear weights after a round trip through NF4, as training computed with them.

Run as `python -m tasks.parity JOB.json`, or as a by-product of scoring, which has the NF4 model in memory anyway.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.base_folder import TOKENIZER_FILES
from tasks.children import main, quieten
from tasks.tensors_file import write_tensors
from turnout.files import exclusive, new_folder, write_json
from turnout.references import Base, from_json

COPIED = (*TOKENIZER_FILES, "chat_template.jinja", "generation_config.json")


def run(job: dict[str, Any]) -> None:
    quieten()
    base, folder = from_json(Base, job["base"]), Path(job["folder"])
    with exclusive(folder.with_suffix(".lock")):
        if not folder.is_dir():
            from tasks.quantise import load_nf4

            write_parity(load_nf4(base.path, job["double_quantisation"]), base, folder)


def write_parity(model: Any, base: Base, folder: Path) -> None:
    """Write the twin of `base` into the new `folder`; `model` is the base in NF4, and not wrapped by peft.

    One layer is dequantised at a time, so memory stays near that of the NF4 model.
    """
    source = Path(base.path)
    with new_folder(folder) as new:
        shapes = {name: ("BF16", shape) for name, shape in _shapes(model).items()}
        write_tensors(new / "model.safetensors", shapes, _weights(model))
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        config.pop("torch_dtype", None)
        write_json(new / "config.json", config | {"dtype": "bfloat16"})
        for name in COPIED:
            if (source / name).is_file():
                shutil.copyfile(source / name, new / name)
        for file in new.iterdir():
            file.chmod(0o644)


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Name → shape as published; tied weights come once, under the embedding's name."""
    return {
        name: tuple(parameter.quant_state.shape if _is_nf4(parameter) else parameter.shape)
        for name, parameter in model.named_parameters()
    }


def _weights(model: Any) -> Iterator[Any]:
    """The parameters' bf16 bytes, in the order of `_shapes`."""
    import torch
    from bitsandbytes.functional import dequantize_4bit

    for _, parameter in model.named_parameters():
        values = parameter.data
        if _is_nf4(parameter):
            values = dequantize_4bit(values, parameter.quant_state)
        yield values.to(torch.bfloat16).contiguous().cpu().view(torch.uint8).numpy()


def _is_nf4(parameter: Any) -> bool:
    return getattr(parameter, "quant_state", None) is not None


if __name__ == "__main__":
    main(run)
