"""How long the rows are, in tokens: percentiles and a histogram."""

from typing import Any


def length_figures(tokens: Any, answers: Any) -> dict[str, Any]:
    """Of whole rows (`row`) and of their answers (`answer`); empty where there are no rows."""
    import numpy as np

    if not len(tokens):
        return {}
    every: dict[str, Any] = {name: _percentiles(values) for name, values in (("row", tokens), ("answer", answers))}
    heights, edges = np.histogram(tokens, bins=min(40, int(tokens.max() - tokens.min()) + 1))
    every["histogram"] = {"edges": [round(float(edge), 1) for edge in edges], "rows": heights.tolist()}
    return every


def _percentiles(values: Any) -> dict[str, float]:
    import numpy as np

    wanted = (5, 50, 90, 95, 99)
    found = np.percentile(values, wanted, method="lower").tolist()
    shown = {f"p{share}": int(value) for share, value in zip(wanted, found, strict=True)}
    return {"min": int(values.min()), **shown, "max": int(values.max()), "mean": round(float(values.mean()), 1)}
