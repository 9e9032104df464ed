"""Which kind of engine answers: the primary one first, or where a request leaves it open, whichever suits it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

VLLM = "vllm"
LLAMA_CPP = "llama_cpp"
KINDS = (VLLM, LLAMA_CPP)

Urgency = Literal["high", "normal", "low"]
_BYTES_A_WORD = 8


class RoutingConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """How `backend: auto` chooses.

    vLLM gets prompts of more than `long_prompt_words` words and answers of more than `long_answer_tokens` tokens. Its
    load is the share of the requests that it runs at once which run or wait there: urgent requests leave it from
    `urgent_load` on, those that can wait above `low_load`, and the others above `normal_load`, where they would wait
    themselves, if llama.cpp's load is lower.
    """

    long_prompt_words: int = Field(100, ge=0)
    long_answer_tokens: int = Field(1024, ge=0)
    urgent_load: float = Field(0.7, ge=0)
    normal_load: float = Field(1.0, ge=0)
    low_load: float = Field(0.7, ge=0)


@dataclass(frozen=True)
class Backend:
    """One kind of engine, for one version.

    `able`: a well engine of it holds the version. `load` is (running + waiting) / concurrent of those engines, over 1
    when requests wait. `full`: no more may wait.
    """

    kind: str
    able: bool
    load: float = 0.0
    full: bool = False


@dataclass(frozen=True)
class Wanted:
    """What of a request bears on the choice. `max_tokens` is None where the request leaves it to the engine."""

    words: int = 0
    max_tokens: int | None = None
    urgency: Urgency = "normal"


@dataclass(frozen=True)
class Choice:
    kind: str
    why: str


def choose_backend(wanted: Wanted, backends: Iterable[Backend], rules: RoutingConfig) -> Choice | None:
    """The kind that suits the request best among those that can answer it, and the rule that says so.

    None where none can. A kind whose queue is full counts only where every able one's is. More load on a kind never
    draws a request to it.
    """
    able = [each for each in backends if each.able]
    by_kind = {each.kind: each for each in able if not each.full} or {each.kind: each for each in able}
    if not by_kind:
        return None
    if len(by_kind) == 1:
        [only] = by_kind
        why = "every other kind's queue is full" if len(able) > 1 else "no other kind has a well engine with it"
        return Choice(only, f"{only}: {why}")
    return _choose_by_rules(wanted, by_kind[VLLM], by_kind[LLAMA_CPP], rules)


def _choose_by_rules(wanted: Wanted, vllm: Backend, llama: Backend, rules: RoutingConfig) -> Choice:
    if wanted.words > rules.long_prompt_words:
        return Choice(VLLM, f"long prompt: about {wanted.words} words, over {rules.long_prompt_words}")
    if wanted.max_tokens is not None and wanted.max_tokens > rules.long_answer_tokens:
        return Choice(VLLM, f"long answer: max_tokens {wanted.max_tokens}, over {rules.long_answer_tokens}")
    loads = f"load of vllm {vllm.load:.2f}, of llama_cpp {llama.load:.2f}"
    if wanted.urgency == "high":
        if vllm.load < rules.urgent_load:
            return Choice(VLLM, f"urgent, and vllm has room: {loads}, limit {rules.urgent_load:g}")
        kind = VLLM if vllm.load < llama.load else LLAMA_CPP
        return Choice(
            kind, f"urgent, vllm is busy, and {kind} has the lower load: {loads}, limit {rules.urgent_load:g}"
        )
    if wanted.urgency == "low" and vllm.load > rules.low_load:
        return Choice(LLAMA_CPP, f"can wait, and vllm is busy: {loads}, limit {rules.low_load:g}")
    if vllm.load > rules.normal_load and llama.load < vllm.load:
        return Choice(LLAMA_CPP, f"requests wait on vllm: {loads}, limit {rules.normal_load:g}")
    return Choice(VLLM, f"default: {loads}")


def count_words(prompt: str) -> int:
    """How many words a prompt is about: those between spaces, but one for every 8 bytes where that is more, as text
    without spaces is no single word."""
    return max(len(prompt.split()), len(prompt.encode()) // _BYTES_A_WORD)
