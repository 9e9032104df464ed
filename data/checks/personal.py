"""Finds personal data and secrets in a text by their shape, and masks them in what is shown."""

import re
from collections.abc import Iterator

_MARKED = {
    "cloud key": (("AKIA", "ASIA", "AIza"), r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}\b|AIza[0-9A-Za-z_-]{35})"),
    "API token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "sk-", "_live_", "hf_", "npm_"),
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}|xox[abeoprs]-[\w-]{10,}"
        r"|sk-[\w-]{20,}|[sr]k_live_[A-Za-z0-9]{16,}|(?:hf|npm)_[A-Za-z0-9]{30,})",
    ),
    "private key": (
        ("PRIVATE KEY",),
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?s:.*?-----END (?:[A-Z]+ )*PRIVATE KEY-----|.*)",
    ),
    "JSON web token": (("eyJ",), r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"),
    "e-mail address": (("@",), r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"),
}
_PATTERNS = [(kind, marks, re.compile(pattern)) for kind, (marks, pattern) in _MARKED.items()]
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_CARD_STARTS = re.compile(r"4\d{12}(?:\d{3}){0,2}|(?:5[1-5]|2[2-7]|35|6[05])\d{14}|3[47]\d{13}")

KINDS = (*_MARKED, "card number")
"""What is looked for; a row's finds are a bit mask in this order."""


def find_personal(text: str) -> dict[str, str]:
    """The kinds found in `text`, each with its first find, masked."""
    found = {}
    for kind, marks, pattern in _PATTERNS:
        # A search for a fixed mark costs a tenth of the pattern's, and most texts have none.
        if any(mark in text for mark in marks) and (match := pattern.search(text)):
            found[kind] = _masked(match.group())
    if card := next(_cards(text), None):
        found["card number"] = _masked(card)
    return found


def mask_personal(text: str) -> str:
    """`text` with every find masked. Cut it afterwards: the shape of half a secret is not known."""
    for _, _, pattern in _PATTERNS:
        text = pattern.sub(lambda match: _masked(match.group()), text)
    for card in set(_cards(text)):
        text = text.replace(card, _masked(card))
    return text


def _cards(text: str) -> Iterator[str]:
    for match in _CARD.finditer(text):
        digits = re.sub("[ -]", "", match.group())
        if _CARD_STARTS.fullmatch(digits) and _passes_luhn(digits):
            yield match.group()


def _masked(secret: str) -> str:
    shown = secret[: min(4, len(secret) // 4)]
    return f"{shown}… ({len(secret)} characters)"


def _passes_luhn(digits: str) -> bool:
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0
