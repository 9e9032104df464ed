"""The log-probabilities of a prompt's tokens, which llama.cpp's server does not offer, from what it does offer."""

from collections.abc import Sequence
from typing import Any

import aiohttp

from serving.client import POSITIONS
from serving.llama_cpp.backend import Backend
from serving.llama_cpp.errors import RequestRefused
from turnout.errors import EngineError

_CERTAIN = 1000.0
"""A bias in nats that makes a token the likeliest; llama.cpp reports log-probabilities from before biases."""
_LIKELIEST = (64, 2048, 2**20)
"""How many of the likeliest tokens are looked through for one that ends within a character."""


def wanted_positions(request: dict[str, Any], token_ids: list[int]) -> list[int]:
    """Of which positions of a prompt a request wants the log-probabilities, ascending: all but the first by default.

    Raises:
        RequestRefused: 400, one of them is not a position that has any.
    """
    asked = request.get(POSITIONS)
    if asked is None:
        return list(range(1, len(token_ids)))
    if not isinstance(asked, list) or not all(type(each) is int and 0 < each < len(token_ids) for each in asked):
        raise RequestRefused(f"{POSITIONS} must be a list of positions from 1 to {len(token_ids) - 1}")
    return sorted(set(asked))


async def prompt_logprobs(
    backend: Backend, session: aiohttp.ClientSession, slot: int, token_ids: list[int], positions: Sequence[int]
) -> dict[int, float]:
    """Position → the log-probability in nats of its token, given those before it; `positions` ascend.

    One request a token, each in the same slot, which holds all that the one before it computed: as dear as writing
    the tokens. The slots work in parallel.

    Raises:
        EngineError: the server refuses, or reports another token than was forced.
        aiohttp.ClientError: it does not answer.
    """
    score = _Slot(backend, session, slot).score
    return {position: await score(token_ids[:position], token_ids[position]) for position in positions}


def as_vllm(scored: dict[int, float], token_ids: list[int]) -> list[dict[str, Any] | None]:
    """vLLM's `prompt_logprobs`: for each token its id and its log-probability, None where it is not in `scored`."""
    return [
        {str(token): {"logprob": scored[position]}} if position in scored else None
        for position, token in enumerate(token_ids)
    ]


class _Slot:
    def __init__(self, backend: Backend, session: aiohttp.ClientSession, slot: int) -> None:
        self._backend = backend
        self._session = session
        self._slot = slot
        self._plain: int | None = None

    async def score(self, before: list[int], target: int) -> float:
        """The log-probability of `target` after the tokens `before`."""
        if told := await self._force(before, target, 1):
            if told["id"] != target:
                raise EngineError(f"llama.cpp reports token {told['id']} where {target} was forced")
            return float(told["logprob"])
        # Of a token whose text ends within a character the server reports nothing, even where it chose it.
        plain = self._plain = await self._plain_token() if self._plain is None else self._plain
        for most in _LIKELIEST:
            told = await self._force(before, plain, most)
            for each in told["top_logprobs"] if told else ():
                if each["id"] == target:
                    return float(each["logprob"])
        raise EngineError(f"llama.cpp reports no log-probability of the token {target}")

    async def _force(self, before: list[int], token: int, most: int) -> dict[str, Any] | None:
        """What the server reports where it is made to choose `token`, with the `most` likeliest ones there."""
        body = {
            "prompt": before,
            "n_predict": 1,
            "temperature": 0,
            "n_probs": most,
            "logit_bias": [[token, _CERTAIN]],
            "id_slot": self._slot,
            "cache_prompt": True,
            "response_fields": ["completion_probabilities"],
        }
        told = (await self._backend.post(self._session, "/completion", body)).get("completion_probabilities")
        return told[0] if told else None

    async def _plain_token(self) -> int:
        """A token whose text is whole characters."""
        asked = {"content": "a", "add_special": False}
        return int((await self._backend.post(self._session, "/tokenize", asked))["tokens"][-1])
