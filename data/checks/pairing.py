"""Whether the answers belong to their prompts: a permutation test on the words of a sample of rows.

Two statistics: the Hilbert-Schmidt independence criterion (do alike prompts have alike answers?; Gretton et al.,
2008), and the words that answers share with their own prompts. Where both are what a random pairing gives, the
answers were shuffled, or are of a kind whose words say nothing about the prompt's.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from data.checks.facts import Sampled
from data.checks.words import words

_LEAST_ROWS = 40
_FIRST_ROWS = 300
_PERMUTATIONS = 199
CLEAR = 0.05
"""At or under this chance of a random pairing, the answers belong to their prompts."""
_ALIKE = 0.1


def chance_of_random_pairing(sample: Sequence[Sampled]) -> float | None:
    """The larger it is, the more the pairing looks random (0 to 1); None where it cannot be told.

    It cannot where there are under 40 distinct prompts, or the answers, or the prompts, have nothing in common.
    """
    rows = list({item.prompt: item for item in sample}.values())
    if len(rows) < _LEAST_ROWS:
        return None
    chance = _chance(rows[:_FIRST_ROWS])
    if chance is not None and chance > CLEAR and len(rows) > _FIRST_ROWS:
        return _chance(rows)
    return chance


def looks_random(chance: float | None) -> bool:
    return chance is not None and chance > CLEAR


def _chance(rows: Sequence[Sampled]) -> float | None:
    import numpy as np

    prompts, answers, shared = _vectors(rows)
    of_prompts, of_answers = _likeness(prompts), _likeness(answers)
    if not (_has_kinds(of_prompts) and _has_kinds(of_answers)):
        return None
    centred = of_prompts - of_prompts.mean(axis=0) - of_prompts.mean(axis=1, keepdims=True) + of_prompts.mean()
    random = np.random.default_rng(0)
    orders = [np.arange(len(rows)), *(random.permutation(len(rows)) for _ in range(_PERMUTATIONS))]
    alike = [float((centred * of_answers[np.ix_(order, order)]).sum()) for order in orders]
    copied = [float(shared[orders[0], order].sum()) for order in orders]
    return min(_rank(alike), _rank(copied))


def _rank(values: list[float]) -> float:
    """The share of `values` that reach the first one, itself included."""
    return sum(value >= values[0] - 1e-9 * abs(values[0]) for value in values) / len(values)


def _vectors(rows: Sequence[Sampled]) -> tuple[Any, Any, Any]:
    """Unit vectors of the prompts' and the answers' words, weighted by rarity, and every prompt × every answer."""
    import numpy as np

    texts = [[set(words(item.prompt)) for item in rows], [set(words(item.answer)) for item in rows]]
    matrices = []
    places: dict[str, int] = {}
    for side in texts:
        for word in sorted(set().union(*side)):
            places.setdefault(word, len(places))
    for side in texts:
        seen = Counter(word for text in side for word in text)
        matrix = np.zeros((len(rows), len(places)), dtype=np.float32)
        for index, text in enumerate(side):
            for word in text:
                matrix[index, places[word]] = np.log(len(rows) / seen[word])
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        matrices.append(matrix / np.where(norms > 0, norms, 1))
    return matrices[0], matrices[1], matrices[0] @ matrices[1].T


def _likeness(vectors: Any) -> Any:
    import numpy as np

    alike = vectors @ vectors.T
    np.fill_diagonal(alike, 0)
    return alike


def _has_kinds(alike: Any) -> bool:
    """Whether at least half of the rows have another that is like them, and not all are like each other."""
    return bool((alike.max(axis=1) > _ALIKE).mean() >= 0.5 and alike.std() > 0.01)
