"""Numbers in pages: where a page of Markdown states a figure, outside code and generated tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

UNITS = (
    r"%|percent|points?|times|ms|µs|s|seconds?|minutes?|min|hours?|days?|bytes?|bits?|B|kB|KB|MB|GB"
    r"|TB|KiB|MiB|GiB|TiB|million|billion|lists|queries|documents|vectors|rows|cores|threads|MHz|GHz"
)
GENERATED = re.compile(r"<!-- (\S+): begin -->.*?<!-- \1: end -->", re.DOTALL)
NOT_PROSE = (
    re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE),  # fenced code
    re.compile(r"^    .*$", re.MULTILINE),  # indented code
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"`[^`\n]*(?:\n[^`\n]+)?`"),
    re.compile(r"(?<=\])\([^)\s]*\)"),  # where a link leads
    re.compile(r"https?://\S+"),
    re.compile(r"^\d+\. ", re.MULTILINE),  # numbers of a list
    re.compile(r"\b(?:Python|Milvus|DuckDB|FAISS|Apache License|CommonMark|HTTP|TLS) [\d.]+\d"),
    re.compile(r"\b95% (?=intervals?\b|confidence\b)|(?<=\btimes )100\b"),  # units of measures
    re.compile(r"\b(?:19[5-9]|20[0-3])\d\b(?!,)(?! (?:" + UNITS + r")\b)"),  # years
)
NUMBER = re.compile(
    r"(?<![\w@.,])(?<![A-Za-z]-)(?P<number>[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?)(?<=\d)"
    r"(?!\w|[.,]\d)(?P<unit> ?(?:" + UNITS + r")(?!\w))?"
)


@dataclass(frozen=True)
class Stated:
    """A number in a page.

    Attributes
    ----------
    text : as it stands there, with its sign and commas.
    start : where it begins in the page's prose.
    """

    text: str
    start: int

    @property
    def value(self) -> float:
        """
        >>> Stated("-1,234.5", 0).value
        -1234.5
        """
        return float(self.text.replace(",", "").replace("−", "-"))

    def agrees(self, value: float) -> bool:
        """Whether the value, rounded to as many decimals as are stated, is this number.

        >>> Stated("0.99", 0).agrees(0.9949), Stated("0.99", 0).agrees(0.9951)
        (True, False)
        """
        decimals = len(self.text.partition(".")[2])
        return abs(value - self.value) <= 0.5 * float(f"1e-{decimals}") * (1 + 1e-6)


def prose(page: str) -> str:
    """A page's text without code, comments, addresses and generated tables; spaces folded.

    >>> prose("Takes `200` of\\n 3 [ms](a1.md).")
    'Takes of 3 [ms].'
    """
    text = GENERATED.sub(" ", page)
    for pattern in NOT_PROSE:
        text = pattern.sub("", text)
    return " ".join(text.split())


def numbers(text: str) -> Iterator[Stated]:
    """The figures of a text: numbers with decimals, a unit, or more than one digit.

    >>> [stated.text for stated in numbers("nDCG@10 of 64.5 in 3 ms, 2 of them, int8, -1,000")]
    ['64.5', '3', '-1,000']
    """
    for match in NUMBER.finditer(text):
        digits = sum(letter.isdigit() for letter in match["number"])
        if digits > 1 or match["unit"]:
            yield Stated(match["number"], match.start("number"))
