"""Losses and greedy answers of a loaded model. Imports torch when called."""

from collections.abc import Iterator, Sequence
from typing import Any

from data.rows import ScoredRow
from turnout.references import Base

TOKENS_A_BATCH = 4096
"""A batch is cut where its padded tokens would be more: the logits of a large vocabulary take most of the memory."""


def row_losses(model: Any, rows: list[ScoredRow], batch_size: int) -> list[float]:
    """Each row's summed negative log-likelihood, in nats, over the tokens that its `loss_mask` marks."""
    import torch

    losses = [0.0] * len(rows)
    model.eval()
    with torch.inference_mode():
        for batch in _batches(rows, batch_size):
            for index, nll in zip(batch, _batch_losses(model, [rows[index] for index in batch]), strict=True):
                losses[index] = nll
    return losses


def _batches(rows: list[ScoredRow], batch_size: int) -> Iterator[list[int]]:
    """Indices of rows of similar length, so that little is padded."""
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index].input_ids))
    while order:
        longest = len(rows[order[0]].input_ids)
        size = max(1, min(batch_size, TOKENS_A_BATCH // longest))
        yield order[:size]
        order = order[size:]


def _batch_losses(model: Any, rows: list[ScoredRow]) -> list[float]:
    import torch

    longest = max(len(row.input_ids) for row in rows)
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    there = torch.zeros((len(rows), longest), dtype=torch.long)
    counts = torch.zeros((len(rows), longest), dtype=torch.bool)
    for index, row in enumerate(rows):
        length = len(row.input_ids)
        ids[index, :length] = torch.tensor(row.input_ids)
        there[index, :length] = 1
        counts[index, :length] = torch.tensor(row.loss_mask) == 1
    ids, there, counts = ids.to(model.device), there.to(model.device), counts.to(model.device)
    # A token is predicted at the position before it; logits are made only where some row has one to predict.
    asked = counts[:, 1:].any(dim=0).nonzero().flatten()
    logits = model(input_ids=ids, attention_mask=there, logits_to_keep=asked, use_cache=False).logits
    targets, counts = ids[:, asked + 1].to(logits.device), counts[:, asked + 1].to(logits.device)
    nll = torch.nn.functional.cross_entropy(logits.float().transpose(1, 2), targets, reduction="none")
    return (nll.double() * counts).sum(dim=1).tolist()


def greedy_answers(model: Any, prompts: list[list[int]], base: Base, max_tokens: int) -> list[str]:
    """The greedy continuations of tokenised prompts, as text without special tokens."""
    from data.tokens import load_tokenizer

    tokenizer = load_tokenizer(base.path)
    ends = list(base.eos_ids)
    model.eval()
    answers = generate_greedily(model, prompts, pad=ends[0], max_new_tokens=max_tokens, eos_token_id=ends)
    texts = tokenizer.batch_decode(answers.cpu(), skip_special_tokens=True)
    return [text.strip() for text in texts]


def generate_greedily(model: Any, prompts: Sequence[Sequence[int]], *, pad: int, **settings: Any) -> Any:
    """The token ids after each prompt, (prompts, new tokens), on the model's device; shorter prompts are padded on
    the left with `pad`. `settings` are those of `generate` that say when it ends."""
    import torch

    longest = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), longest), pad)
    there = torch.zeros((len(prompts), longest), dtype=torch.long)
    for index, prompt in enumerate(prompts):
        ids[index, longest - len(prompt) :] = torch.tensor(prompt)
        there[index, longest - len(prompt) :] = 1
    with torch.inference_mode():
        answers = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=there.to(model.device),
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=pad,
            **settings,
        )
    return answers[:, longest:]
