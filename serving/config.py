"""The `serving` section of a preset."""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from serving.gateway.backends import RoutingConfig
from serving.gateway.sampling import SamplingConfig

VLLM_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM 0.32 takes for `--max-lora-rank`."""

ProveOn = Literal["auto", "serving", "separate"]
EngineKind = Literal["vllm", "llama_cpp"]
Quantisation = Literal["f16", "bf16", "Q8_0", "Q5_K_M", "Q4_K_M", "Q4_0"]
"""llama.cpp's names for the formats of a model's weights."""


class GatewayConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """The gateway that clients talk to.

    `workers` are processes that share the port. Requests wait in the engines' queues: when `max_queued` of them do, for
    all replicas of a base and as far as one worker sees, more are refused with 429. `request_timeout_s` bounds
    a whole answer, `idle_timeout_s` the time in which an engine sends nothing of one, `client_timeout_s` the time
    in which a client sends its request, or takes a piece of its answer. A gateway that is told to stop finishes
    its requests for `drain_s` seconds. Engines with traffic are asked every `load_every_s` seconds how many requests
    run and wait there; `routing` is how `backend: auto` chooses, `sampling` what /generate samples with.
    """

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=1, le=65535)
    workers: int = Field(1, ge=1, le=64)
    max_body_bytes: int = Field(8 * 2**20, ge=1024)
    max_queued: int = Field(512, ge=0)
    request_timeout_s: float = Field(600, gt=0)
    idle_timeout_s: float = Field(120, gt=0)
    client_timeout_s: float = Field(30, gt=0)
    drain_s: float = Field(30, ge=0)
    load_every_s: float = Field(1.0, gt=0)
    routing: RoutingConfig = RoutingConfig()
    sampling: SamplingConfig = SamplingConfig()


class LlamaCppConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """llama.cpp's own settings. `threads`: every core where it is not given; `parallel` requests run at once.

    With `mmap` the weights are read from the file as they are needed and shared by processes; `mlock` keeps them in
    memory. `gpu_layers`: all of them where llama.cpp was built for the GPU that is there. `command` replaces the
    program that starts the engine, as `serving.command` does vLLM's.
    """

    quantisation: Quantisation = "f16"
    threads: int | None = Field(None, ge=1)
    batch: int = Field(512, ge=1)
    parallel: int = Field(4, ge=1, le=256)
    mmap: bool = True
    mlock: bool = False
    gpu_layers: int | None = Field(None, ge=0)
    replicas: int = Field(1, ge=1, le=64)
    command: tuple[str, ...] = ()


class GuardConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """The memory guard: shares of what an engine, its container, the host or a GPU has.

    It looks every `every_s` seconds. At `clear_at` what can be cleared of an engine is cleared, again after
    `clear_every_s` at the earliest; at `drain_at` the engine finishes its requests and is started again.
    `engine_limit_gb` is what one engine may take; if it is left out, what its control group or the host has.
    """

    every_s: float = Field(30, gt=0)
    clear_at: float = Field(0.85, gt=0, le=1)
    drain_at: float = Field(0.95, gt=0, le=1)
    clear_every_s: float = Field(600, gt=0)
    engine_limit_gb: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def clears_first(self) -> Self:
        if self.clear_at >= self.drain_at:
            raise ValueError(
                f"serving.guard.clear_at={self.clear_at} is not below serving.guard.drain_at={self.drain_at}: lower it"
            )
        return self


class ServingConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """The engine that serves the versions, and how strictly a version is proven on it.

    `base: parity` serves the base with its linear weights dequantised from NF4, exactly what training
    saw; `original` serves it as published. `parity_tolerance` is in nats; when it is not given it is
    0.02 on the parity base and 0.5 on the original. `dtype: auto` is the base's own on a GPU; on a CPU it
    is bfloat16 where the CPU computes in it, else float32, which is three times as fast there.
    `command` replaces the program that starts the engine (vLLM's OpenAI server), so that it may live in
    another environment or container; Turnout appends the flags. `replicas` engines of the same base, on ports from
    `port` on, form a pool.

    `engines` are the kinds of engine that serve the base, each with a pool of its own; the first one is asked first.

    `prove_on` says which engine a version is proven on. `auto` takes the serving one where it has no traffic, else
    takes a replica out of the traffic, else starts a short-lived engine beside it; `serving` never starts one, and
    `separate` always does. With `reprove` the reconciler proves what is served again after the engine was upgraded.
    """

    base: Literal["parity", "original"] = "parity"
    mode: Literal["hot", "restart"] = "hot"
    parity_tolerance: float | None = Field(None, gt=0)
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=1, le=65535)
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    max_lora_rank: int | None = Field(None, ge=1)
    max_loras: int = Field(2, ge=2)
    max_cpu_loras: int = Field(4, ge=2)
    max_model_len: int = Field(2048, ge=64)
    max_num_seqs: int | None = Field(None, ge=1)
    kv_cache_gb: float = Field(1.0, gt=0)
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    tensor_parallel: int = Field(1, ge=1)
    command: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    replicas: int = Field(1, ge=1, le=64)
    engines: tuple[EngineKind, ...] = ("vllm",)
    llama_cpp: LlamaCppConfig = LlamaCppConfig()
    guard: GuardConfig = GuardConfig()
    prove_on: ProveOn = "auto"
    reprove: bool = True
    gateway: GatewayConfig = GatewayConfig()
    ready_timeout_s: float = Field(600, gt=0)

    @field_validator("engines")
    @classmethod
    def kinds_are_different(cls, kinds: tuple[EngineKind, ...]) -> tuple[EngineKind, ...]:
        if not kinds or len(set(kinds)) != len(kinds):
            raise ValueError(f"serving.engines={list(kinds)}: give at least one of vllm and llama_cpp, each once")
        return kinds

    @field_validator("command", "extra_args", mode="before")
    @classmethod
    def words_are_a_list(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            words = ", ".join(value.split()[:4])
            raise ValueError(f"serving.{info.field_name}={value!r:.100}: give a list of words, such as [{words}]")
        return value

    @model_validator(mode="after")
    def limits_agree(self) -> Self:
        if self.max_lora_rank is not None and self.max_lora_rank not in VLLM_LORA_RANKS:
            raise ValueError(
                f"serving.max_lora_rank={self.max_lora_rank} is not a rank that vLLM takes: one of {VLLM_LORA_RANKS}"
            )
        if self.max_cpu_loras < self.max_loras:
            raise ValueError(
                f"serving.max_cpu_loras={self.max_cpu_loras} is below serving.max_loras={self.max_loras}: raise it"
            )
        return self

    @property
    def tolerance(self) -> float:
        return self.parity_tolerance or (0.02 if self.base == "parity" else 0.5)
