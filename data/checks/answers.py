"""What one row's text shows: an answer that breaks off, one that its prompt gives away, damaged characters."""

import re

_SENTENCE_END = re.compile(r"[.!?…。！？:;)\]}>'\"”’」』»*`|]\s*$")
_INNER_END = re.compile(r"[^\W\d_]{2}[.!?] +\S|[。！？]\s*\S")
_LIST_ITEM = re.compile(r"\s*(?:[-*•·#>|]|\d+[.)])")
_OPEN_END = re.compile(r"(?:[,(\[{]|\s[-–—])\s*$")
_LEAST_WORDS = 3
_LEAST_CHARACTERS = 20
"""Shorter answers are labels or single words, which a prompt may well list."""

WHOLE, MAYBE_CUT, CUT = 0, 1, 2


def truncation(answer: str) -> int:
    """`CUT` where the answer breaks off, `MAYBE_CUT` where it is prose without an end, else `WHOLE`.

    Prose without a last full stop is a habit in some datasets, so a `MAYBE_CUT` only counts beside others that are
    certain.
    """
    if answer.count("```") % 2 or _OPEN_END.search(answer):
        return CUT
    last = answer.rstrip().rpartition("\n")[2]
    if _SENTENCE_END.search(last) or _LIST_ITEM.match(last):
        return WHOLE
    prose = sum(letter.isalpha() or letter in " ,.'" for letter in last) >= 0.85 * len(last)
    if not prose or len(last.split()) < _LEAST_WORDS:
        return CUT if _INNER_END.search(answer) and last[-1:].isalpha() else WHOLE
    return CUT if _INNER_END.search(answer) else MAYBE_CUT


def gives_away(prompt: str, answer: str) -> bool:
    """Whether the prompt holds the whole answer, whatever its case and spaces."""
    if len(answer) < _LEAST_CHARACTERS or len(answer) > len(prompt) + _LEAST_CHARACTERS:
        return False
    plain = " ".join(answer.split()).lower()
    return len(plain) >= _LEAST_CHARACTERS and plain in " ".join(prompt.split()).lower()


def is_damaged(text: str) -> bool:
    """Whether `text` holds the replacement character, or letters that were decoded with the wrong encoding."""
    if text.isascii():
        return False
    from ftfy.badness import is_bad

    return "\ufffd" in text or is_bad(text)
