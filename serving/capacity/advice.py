"""Which precision to serve at, by what fits and by what a generation of GPUs computes in."""

from collections.abc import Callable
from dataclasses import dataclass

NVIDIA = "https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/"
VLLM = "https://docs.vllm.ai/en/latest/features/quantization/"


@dataclass(frozen=True)
class Rule:
    """`plain`: the 16-bit type; `fast`: a precision that is faster than it, if any; `small`: the one to save memory."""

    plain: str
    fast: str | None
    small: str
    reason: str
    source: str


RULES = {
    "Volta": Rule("fp16", None, "gptq", "no bfloat16 and no 8-bit float: weights of 4 bits save memory only", VLLM),
    "Turing": Rule("fp16", None, "awq", "no bfloat16 and no 8-bit float: weights of 4 bits save memory only", VLLM),
    "Ampere": Rule(
        "bf16",
        None,
        "awq",
        "no 8-bit float in its tensor cores, and 4-bit weights (W4A16) become 16 bits again before each product",
        VLLM,
    ),
    "Ada": Rule(
        "bf16", None, "awq", "fused kernels (Marlin) multiply 4-bit weights at about the speed of 16 bits", VLLM
    ),
    "Hopper": Rule("bf16", "fp8", "fp8", "tensor cores multiply 8-bit floats (W8A8) themselves", VLLM),
    "Blackwell": Rule("bf16", "nvfp4", "nvfp4", "tensor cores multiply 4-bit floats (NVFP4) themselves", NVIDIA),
    "CDNA3": Rule("bf16", "fp8", "fp8", "matrix cores multiply 8-bit floats themselves", VLLM),
}


def advise(generation: str, users_at: Callable[[str], int], wanted: int) -> dict[str, str]:
    """The precision to serve at, why, and whose word that is.

    Args:
        users_at: users whom the GPU holds with weights at a precision.
        wanted: users who are to be held.
    """
    rule = RULES.get(generation)
    if rule is None:
        reason = "this generation is not known: 16 bits where they fit; measure others with `turnout bench latency`"
        return {"precision": "bf16", "reason": reason, "source": VLLM}
    plain = users_at("bf16")
    if plain < wanted:
        held = f"{rule.plain} holds {plain} of {wanted} users, {rule.small} {users_at(rule.small)}; {rule.reason}"
        return {"precision": rule.small, "reason": held, "source": rule.source}
    if rule.fast:
        faster = f"{rule.plain} fits, and {rule.fast} is faster besides: {rule.reason}"
        return {"precision": rule.fast, "reason": faster, "source": rule.source}
    stay = f"{rule.plain} fits with {plain} users, so fewer bits would gain nothing: {rule.reason}"
    return {"precision": rule.plain, "reason": stay, "source": rule.source}
