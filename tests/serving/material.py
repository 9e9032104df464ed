"""Small adapters with real shapes, and what training would say of them."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data.rows import ScoredRow
from serving.records import Engine, running_engines
from turnout.digests import files_sha256
from turnout.paths import Home

FILES = ("adapter_config.json", "adapter_model.safetensors")


@dataclass(frozen=True)
class MadeAdapter:
    folder: Path
    sha256: str


def make_adapter(folder: Path, base: Path, *, rank: int = 8, scale: float = 0.02, seed: int = 0, **config: Any) -> Path:
    """Write a random LoRA for all linear layers of the Llama in `base`; `scale` 0 makes one that does nothing."""
    from safetensors.numpy import save_file

    shape = json.loads((base / "config.json").read_text())
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    narrow = hidden // shape["num_attention_heads"] * shape["num_key_value_heads"]
    outputs = {"self_attn.q_proj": hidden, "self_attn.k_proj": narrow, "self_attn.v_proj": narrow}
    outputs |= {"self_attn.o_proj": hidden, "mlp.gate_proj": inner, "mlp.up_proj": inner, "mlp.down_proj": hidden}
    random = np.random.default_rng(seed)
    weights = {}
    for layer in range(shape["num_hidden_layers"]):
        for module, size in outputs.items():
            width = inner if module == "mlp.down_proj" else hidden
            name = f"base_model.model.model.layers.{layer}.{module}"
            weights[f"{name}.lora_A.weight"] = random.normal(0, width**-0.5, (rank, width)).astype(np.float32)
            weights[f"{name}.lora_B.weight"] = random.normal(0, scale, (size, rank)).astype(np.float32)
    folder.mkdir(parents=True)
    save_file(weights, folder / FILES[1], metadata={"format": "pt"})
    described = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(module.split(".")[1] for module in outputs),
        "base_model_name_or_path": "base",
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": None,
    }
    (folder / FILES[0]).write_text(json.dumps(described | config))
    return folder


def place(made: Path, adapters: Path) -> MadeAdapter:
    """Copy an adapter to where engines read it: a folder named by its digest."""
    digest = files_sha256([made / name for name in FILES])
    if not (adapters / digest).exists():
        shutil.copytree(made, adapters / digest)
    return MadeAdapter(adapters / digest, digest)


def reference_loss(base: Path, adapter: Path, rows: Sequence[ScoredRow], dtype: str) -> float:
    """The adapter's token-weighted loss in nats, computed by Transformers and PEFT."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=getattr(torch, dtype))
    model = PeftModel.from_pretrained(model, str(adapter), torch_device="cpu").eval()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([row.input_ids])
            logprobs = torch.log_softmax(model(ids).logits[0, :-1].float(), -1)
            chosen = logprobs.gather(1, ids[0, 1:, None])[:, 0]
            mask = torch.tensor(row.loss_mask[1:], dtype=torch.bool)
            total -= float(chosen[mask].sum())
            tokens += int(mask.sum())
    return total / tokens


def find_engine(home: Home) -> Engine | None:
    """The engine of this home; the oldest, while its successor takes over."""
    return next(iter(running_engines(home)), None)
