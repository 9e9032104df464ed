"""The options of `turnout capacity`."""

from typing import Annotated

import typer

_LORA, _COST = "Adapters", "Cost"

Model = Annotated[
    str | None,
    typer.Option("--model", help="A folder, a config.json, `bundled`, or a hub id that is in the local cache."),
]
Context = Annotated[int, typer.Option("--context", help="Tokens of the longest request, prompt and answer.")]
GpuName = Annotated[
    list[str] | None,
    typer.Option(
        "--gpu", help="A GPU's name, such as A40; may be repeated. This machine's, or common ones, if left out."
    ),
]
GpuMemory = Annotated[float | None, typer.Option("--gpu-memory", help="GiB of a GPU that has no name here.")]
Utilization = Annotated[
    float, typer.Option("--gpu-memory-utilization", help="Share of the memory that the engine may take.")
]
KvDtype = Annotated[
    str, typer.Option("--kv-dtype", help="Type of the KV cache: auto, bf16, fp8, fp32, nvfp4, q8_0, q4_0.")
]
PrecisionName = Annotated[
    str, typer.Option("--precision", help="Of the weights: bf16, fp8, int8, nf4, awq, gptq, nvfp4, Q8_0, Q4_K_M, …")
]
Users = Annotated[int | None, typer.Option("--users", min=1, help="Users at a time who are to be held.")]
MeanTokens = Annotated[
    int | None, typer.Option("--mean-tokens", help="Tokens of a mean request; a third of --context if left out.")
]
Parallel = Annotated[int, typer.Option("--tensor-parallel", min=1, help="GPUs that share the model.")]
Overhead = Annotated[float, typer.Option("--overhead-gib", min=0, help="GiB of a GPU for activations and the runtime.")]
Adapters = Annotated[
    int, typer.Option("--adapters", min=0, help="LoRA adapters on the GPU at a time.", rich_help_panel=_LORA)
]
LoraRank = Annotated[int, typer.Option("--lora-rank", min=1, help="Their rank.", rich_help_panel=_LORA)]
LoraTargets = Annotated[
    str, typer.Option("--lora-targets", help="all-linear, or names such as q_proj,v_proj.", rich_help_panel=_LORA)
]
Hourly = Annotated[float | None, typer.Option("--hourly", help="Price of the hardware an hour.", rich_help_panel=_COST)]
RequestsPerHour = Annotated[
    float | None, typer.Option("--requests-per-hour", help="Measured requests an hour.", rich_help_panel=_COST)
]
TokensPerSecond = Annotated[
    float | None, typer.Option("--throughput", help="Measured generated tokens a second.", rich_help_panel=_COST)
]
Bench = Annotated[
    str | None, typer.Option("--bench", help="Take both from this result of `turnout bench`.", rich_help_panel=_COST)
]
PromptTokens = Annotated[
    int | None, typer.Option("--prompt-tokens", min=0, help="Of a mean request's prompt.", rich_help_panel=_COST)
]
OutputTokens = Annotated[
    int | None, typer.Option("--output-tokens", min=1, help="Of a mean request's answer.", rich_help_panel=_COST)
]
ApiPrice = Annotated[
    float | None,
    typer.Option("--api-price-per-million", help="An API's, for prompt and answer alike.", rich_help_panel=_COST),
]
ApiInput = Annotated[
    float | None, typer.Option("--api-input-price", help="An API's, a million prompt tokens.", rich_help_panel=_COST)
]
ApiOutput = Annotated[
    float | None, typer.Option("--api-output-price", help="An API's, a million generated ones.", rich_help_panel=_COST)
]
