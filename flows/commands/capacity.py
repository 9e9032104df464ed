"""`turnout capacity`: memory, users and cost of serving a model."""

from pathlib import Path

import typer

from flows.commands.capacity_options import (
    Adapters,
    ApiInput,
    ApiOutput,
    ApiPrice,
    Bench,
    Context,
    GpuMemory,
    GpuName,
    Hourly,
    KvDtype,
    LoraRank,
    LoraTargets,
    MeanTokens,
    Model,
    OutputTokens,
    Overhead,
    Parallel,
    PrecisionName,
    PromptTokens,
    RequestsPerHour,
    TokensPerSecond,
    Users,
    Utilization,
)
from flows.commands.capacity_train import EXAMPLES as TRAIN_EXAMPLES
from flows.commands.capacity_train import train
from flows.commands.options import Debug, Json
from flows.output import answer, err
from turnout.errors import BadInput

EXAMPLES = """
Examples:

  turnout capacity --model bundled --context 4096 --gpu L4

  turnout capacity --model Qwen/Qwen2.5-7B-Instruct --context 32768 --users 50 --gpu A100-80GB --gpu H200

  turnout capacity --model config.json --context 8192 --gpu A40 --precision awq --adapters 8 --lora-rank 16

  turnout capacity --model bundled --context 2048 --hourly 4.10 --requests-per-hour 23040

  turnout capacity train -c qwen2.5-7b
"""


def add_to(app: typer.Typer) -> None:
    capacity = typer.Typer(invoke_without_command=True, epilog=EXAMPLES)
    capacity.callback(epilog=EXAMPLES)(serve)
    capacity.command(epilog=TRAIN_EXAMPLES)(train)
    app.add_typer(capacity, name="capacity")


def serve(
    context_of_command: typer.Context,
    model: Model = None,
    context: Context = 4096,
    gpu: GpuName = None,
    gpu_memory: GpuMemory = None,
    gpu_memory_utilization: Utilization = 0.9,
    kv_dtype: KvDtype = "auto",
    precision: PrecisionName = "bf16",
    users: Users = None,
    mean_tokens: MeanTokens = None,
    tensor_parallel: Parallel = 1,
    adapters: Adapters = 0,
    lora_rank: LoraRank = 16,
    lora_targets: LoraTargets = "all-linear",
    overhead_gib: Overhead = 1.7,
    hourly: Hourly = None,
    requests_per_hour: RequestsPerHour = None,
    throughput: TokensPerSecond = None,
    bench: Bench = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    api_price_per_million: ApiPrice = None,
    api_input_price: ApiInput = None,
    api_output_price: ApiOutput = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compute KV cache, weights, users per GPU and cost of serving a model, from its config.json.

    Nothing is downloaded and no weights are loaded. `turnout capacity train` does the same for a training.
    """
    if context_of_command.invoked_subcommand is not None:
        return
    if model is None:
        raise BadInput("--model is missing", "Name a folder, a config.json, `bundled` or a hub id in the local cache.")
    from flows.commands.capacity_tables import show
    from serving.capacity.cost import api_prices, measured
    from serving.capacity.gpus import chosen_gpus
    from serving.capacity.report import Question, answer_question
    from tasks.model_shapes import describe_model, find_config

    gpus = chosen_gpus(gpu or [], gpu_memory)
    question = Question(
        context=context,
        kv_dtype=kv_dtype,
        precision=precision,
        utilization=gpu_memory_utilization,
        parallel=tensor_parallel,
        users=users,
        mean_tokens=mean_tokens,
        adapters=adapters,
        lora_rank=lora_rank,
        lora_targets=tuple(lora_targets.replace(",", " ").split()),
        overhead_gib=overhead_gib,
        hourly=hourly,
        throughput=measured(requests_per_hour, throughput, Path(bench) if bench else None, output_tokens),
        api=api_prices(
            api_price_per_million if api_input_price is None else api_input_price,
            api_price_per_million if api_output_price is None else api_output_price,
            prompt_tokens,
            output_tokens,
        ),
    )
    with err.status("Reading the model") as status:
        attention, shapes = describe_model(find_config(model, status.update), status.update)
        result = answer_question(model, attention, shapes, gpus, question)
    answer(result, json, show)
