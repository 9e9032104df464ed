"""The gate's rules on task metrics: the engine's answers against the expected ones."""

import re
import unicodedata
from collections.abc import Sequence

from registry.manifest import GateRule as Rule
from tasks.answers_config import MetricsConfig
from tasks.gate.answers import unanswered
from turnout.references import Answer

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
"""A word of any script; a kanji, hanzi or kana by itself, because those scripts put no spaces between words."""


def metric_rules(config: MetricsConfig, answers: Sequence[Answer]) -> list[Rule]:
    """One rule for each metric that has a least value; figures are means from 0 to 1."""
    wanted = {name: least for name, least in config.model_dump().items() if least is not None}
    if not answers:
        return [unanswered(name, least) for name, least in wanted.items()]
    found = measure([answer.text for answer in answers], [answer.expected for answer in answers])
    return [
        Rule(
            name,
            found[name] >= least,
            found[name],
            least,
            f"{name} {found[name]:.3f} over {len(answers)} answers, at least {least:.3f} wanted",
        )
        for name, least in wanted.items()
    ]


def measure(answers: Sequence[str], expected: Sequence[str]) -> dict[str, float]:
    """Mean exact match and F1 as SQuAD has them, and the F1 of ROUGE-L, each from 0 to 1.

    Case, punctuation and English articles do not count. torchmetrics' own tokenizers know Latin letters alone or
    split at spaces only, so the words are found here, in any script.
    """
    from torchmetrics.functional.text import rouge_score, squad

    told = [" ".join(words(text)) for text in answers]
    wanted = [" ".join(words(text)) for text in expected]
    pairs = squad(
        [{"prediction_text": text, "id": str(index)} for index, text in enumerate(told)],
        [{"answers": {"text": [text], "answer_start": [0]}, "id": str(index)} for index, text in enumerate(wanted)],
    )
    rouge = rouge_score(told, wanted, rouge_keys="rougeL", normalizer=str, tokenizer=str.split)
    return {
        "exact_match": float(pairs["exact_match"]) / 100,
        "f1": float(pairs["f1"]) / 100,
        "rouge_l": float(rouge["rougeL_fmeasure"]),
    }


def words(text: str) -> list[str]:
    """The words of a text in any script, in one spelling."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())
