"""Figures of how far fresh rows are from those that a model learnt: prompt lengths, tokens, and its loss on them.

Small samples differ by chance. A figure counts as drift only above its configured limit and above what two samples of
these sizes from one and the same source show once in a hundred times, whichever is more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from turnout.references import Loss

Prompts = Sequence[Sequence[int]]

CHANCE = 0.01
"""How rarely chance alone may pass for drift."""
_REDRAWS = 200
_ONE_SIDED_99 = 2.326
"""Standard errors that a normally distributed mean exceeds once in a hundred times."""


@dataclass(frozen=True)
class Shift:
    """One figure, the limit that counted, and the verdict. A figure that could not be had is None, and no drift."""

    name: str
    figure: float | None
    limit: float | None
    drifted: bool
    text: str


def length_shift(fresh: Prompts, learnt: Prompts, limit: float) -> Shift:
    """The Kolmogorov-Smirnov statistic of the prompts' lengths in tokens: the largest gap between the two shares of
    prompts that are at most so long."""
    import numpy as np
    from scipy.stats import ks_2samp

    lengths, before = [len(prompt) for prompt in fresh], [len(prompt) for prompt in learnt]
    figure = float(ks_2samp(lengths, before).statistic)
    sizes = (len(fresh) + len(learnt)) / (len(fresh) * len(learnt))
    by_chance = math.sqrt(-math.log(CHANCE / 2) / 2 * sizes)
    text = (
        f"prompt lengths: Kolmogorov-Smirnov {figure:.3f}, medians {np.median(lengths):.0f} and {np.median(before):.0f}"
    )
    return _judged("length", figure, limit, by_chance, text)


def vocabulary_shift(fresh: Prompts, learnt: Prompts, limit: float) -> Shift:
    """The Jensen-Shannon distance (base 2, so from 0 to 1) of the prompts' token frequencies.

    What all prompts begin and end with, the chat template's and a constant system prompt's tokens, is left out: it
    would make every two sets look alike. Rows are dealt out anew to see what chance alone gives.
    """
    import numpy as np
    from scipy.spatial.distance import jensenshannon

    both = _bare([*fresh, *learnt])
    row_of = np.repeat(np.arange(len(both)), [len(prompt) for prompt in both])
    kinds, tokens = np.unique(np.fromiter((token for prompt in both for token in prompt), int), return_inverse=True)
    whole = np.bincount(tokens, minlength=len(kinds))

    def distance(is_fresh: "np.ndarray") -> float:
        part = np.bincount(tokens[is_fresh[row_of]], minlength=len(kinds))
        rest = whole - part
        return float(jensenshannon(part, rest, 2)) if part.any() and rest.any() else 0.0

    random = np.random.default_rng(0)
    is_fresh = np.arange(len(both)) < len(fresh)
    figure = distance(is_fresh)
    by_chance = float(np.quantile([distance(random.permutation(is_fresh)) for _ in range(_REDRAWS)], 1 - CHANCE))
    return _judged("vocabulary", figure, limit, by_chance, f"prompt tokens: Jensen-Shannon distance {figure:.3f}")


def loss_shift(sums: Sequence[float], tokens: Sequence[int], own: Loss, limit: float) -> Shift:
    """How much higher the champion's loss on fresh rows is than its `own` eval loss, in nats a token.

    `sums` are each row's negative log-likelihood over its `tokens`.
    """
    count = sum(tokens)
    mean = math.fsum(sums) / count
    spread = math.sqrt(math.fsum((nll - mean * each) ** 2 for nll, each in zip(sums, tokens, strict=True))) / count
    figure = mean - own.nats
    text = f"the champion's loss: {mean:.4f} on fresh rows, {own.nats:.4f} on its own, {figure:+.4f}"
    return _judged("loss", figure, limit, _ONE_SIDED_99 * spread, text)


def _judged(name: str, figure: float, limit: float, by_chance: float, text: str) -> Shift:
    counts = max(limit, by_chance)
    why = "" if limit >= by_chance else f", what chance alone may give here; {limit:g} is configured"
    return Shift(name, round(figure, 6), round(counts, 6), figure > counts, f"{text}, at most {counts:.3f}{why}")


def _bare(prompts: Prompts) -> list[Sequence[int]]:
    """The prompts without the tokens that all of them begin and end with."""
    shortest = min(map(len, prompts))
    first = prompts[0]
    head = next((at for at in range(shortest) if any(prompt[at] != first[at] for prompt in prompts)), shortest)
    left = shortest - head
    tail = next((at for at in range(left) if any(prompt[-1 - at] != first[-1 - at] for prompt in prompts)), left)
    return [prompt[head : len(prompt) - tail] for prompt in prompts]
