"""The contract between training and an engine: the same token ids for a prompt, and the same end of an answer."""

import asyncio
from collections.abc import Sequence

from serving.client import EngineClient
from serving.evidence import Probe
from serving.measure import ScoredRow
from serving.quick import failure


async def check_template(client: EngineClient, name: str, probes: Sequence[Probe]) -> None:
    """See that the engine feeds the model what training did, special tokens included.

    Raises:
        ProofFailed: the first position at which they differ.
    """
    served = await asyncio.gather(*(client.chat_prompt_ids(name, messages) for messages, _ in probes))
    for (messages, expected), ids in zip(probes, served, strict=True):
        if list(ids) != list(expected):
            same = next((i for i, pair in enumerate(zip(ids, expected, strict=False)) if pair[0] != pair[1]), None)
            place = min(len(ids), len(expected)) if same is None else same
            raise failure(
                name,
                "template",
                f"the engine makes {len(ids)} token ids of a conversation of {len(messages)} messages, training made "
                f"{len(expected)}; they differ from position {place} on ({messages[-1].get('content')!r:.60})",
            )


async def check_ends(client: EngineClient, name: str, probes: Sequence[Probe], rows: Sequence[ScoredRow]) -> None:
    """See that the engine ends an answer at the tokens that answers end with in training.

    Which tokens an engine stops at no endpoint tells, so it is made to choose each of them.

    Raises:
        ProofFailed: an answer goes on after such a token.
    """
    ends = sorted({row.input_ids[-1] for row in rows if row.loss_mask[-1]})
    for end in ends if probes else ():
        told = await client.complete(name, probes[0][1], max_tokens=2, logit_bias={str(end): 100})
        if told.finish_reason != "stop":
            raise failure(
                name,
                "template",
                f"answers end with the token {end} in training, and the engine goes on after it (it ends by "
                f"{told.finish_reason!r}): its answers would never stop",
            )
