"""Which languages the rows are in, on a sample."""

import threading
from collections import Counter
from collections.abc import Sequence

from data.checks.facts import Sampled

_loading = threading.Lock()
_ROWS = 300
_STRAY = 0.03
"""A smaller share is more likely a short text taken for another language: it counts as `other`."""


def load_ahead() -> None:
    """Begin to load the model, most of which is unpacking beside Python's lock; whoever needs it first waits for it."""
    threading.Thread(target=_classify, args=("",), daemon=True).start()


def _classify(text: str) -> str:
    import py3langid

    with _loading:
        return py3langid.classify(text)[0]


def language_shares(sample: Sequence[Sampled]) -> dict[str, float]:
    """ISO 639-1 code → share of the sampled rows, the largest first."""
    texts = [f"{item.prompt[-300:]}\n{item.answer[:300]}" for item in sample[:_ROWS]]
    counts = Counter(_classify(text) for text in texts)
    shares: dict[str, float] = {}
    for code, count in counts.most_common():
        name = code if count > _STRAY * len(texts) else "other"
        shares[name] = shares.get(name, 0) + count / len(texts)
    return {name: round(share, 4) for name, share in shares.items()}
