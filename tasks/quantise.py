"""Loads base models in NF4 as training and scoring use them. Imports torch and transformers when called."""

from pathlib import Path
from typing import Any


def device_map() -> dict[str, Any]:
    """The first GPU, or the CPU."""
    import torch

    return {"": 0} if torch.cuda.is_available() else {"": "cpu"}


def compute_dtype() -> Any:
    """What the matrices are multiplied in: bf16, or fp32 on a CPU without bf16 instructions.

    Such a CPU computes bf16 products one by one: a training step took a hundred times as long there as in fp32.
    """
    import torch

    fast = torch.cuda.is_available() or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.bfloat16 if fast else torch.float32


def load_nf4(path: str | Path, double_quantisation: bool) -> Any:
    """The model in `path` with its linear layers in NF4 (64 weights a scale), the rest in `compute_dtype`.

    Whatever that is, the weights are quantised from bf16 and come back as bf16 values, so that every machine
    computes with the same ones.
    """
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    quantisation = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=double_quantisation,
        bnb_4bit_compute_dtype=compute_dtype(),
    )
    model = AutoModelForCausalLM.from_pretrained(
        str(path),
        quantization_config=quantisation,
        dtype=torch.bfloat16,
        device_map=device_map(),
        attn_implementation="sdpa",
        local_files_only=True,
    )
    keep_differentiable(model)
    for parameter in model.parameters():
        if parameter.dtype == torch.bfloat16:
            parameter.data = parameter.data.to(compute_dtype())
    return model


def load_bf16(path: str | Path) -> Any:
    """The model in `path` with bf16 weights, over several GPUs where one does not hold it."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        str(path),
        dtype=torch.bfloat16,
        device_map="auto" if torch.cuda.is_available() else {"": "cpu"},
        attn_implementation="sdpa",
        local_files_only=True,
    )
    return model if compute_dtype() == torch.bfloat16 else model.to(compute_dtype())


def fits_in_bf16(path: str | Path) -> bool:
    """Whether the model in `path` may be held dequantised: it takes less than half of what is free."""
    import torch

    from serving.capacity.shapes import file_shapes
    from serving.capacity.weights import parameters
    from tasks.memory import free_memory_bytes

    shapes, _ = file_shapes(Path(path))
    free = torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else free_memory_bytes()
    return parameters(shapes) * compute_dtype().itemsize < free / 2


def linear_4bit(model: Any) -> dict[str, Any]:
    """The model's 4-bit layers by name."""
    import bitsandbytes as bnb

    return {name: module for name, module in model.named_modules() if isinstance(module, bnb.nn.Linear4bit)}


def keep_differentiable(model: Any) -> None:
    """Stop bitsandbytes from repacking the weights for CPUs with AVX512-BF16 in the first evaluation.

    The repacked kernel has no gradient: training that goes on after it learns nothing, and layers with a bias crash.
    """
    for module in linear_4bit(model).values():
        module.support_avx512bf16_for_cpu = False
