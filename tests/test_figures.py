"""Measured numbers of README and docs stand in generated blocks, and nowhere else in their prose.

`slimdex bench tables` writes the blocks from rows (`slimdex/bench/reporting/sections.py`). Tables
of finished experiments are frozen: their marks name the last commit that had the rows. Code blocks
show examples of output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from slimdex.bench.reporting.sections import SECTIONS

ROOT = Path(__file__).parents[1]
PAGES = [
    path.relative_to(ROOT) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
]
CONSTANTS = {
    "README.md": "4-bit",
    "docs/cluster.md": "0.3",
    "docs/encoders.md": "0.001, 0.99",
    "docs/export.md": "1.25",
    "docs/file-format.md": "4 MiB, 4 bits, 4 bytes, 32 bytes",
    "docs/files-and-crashes.md": "60 s",
    "docs/files.md": "64 MiB, 256 MiB, 10,485,760, 2 GiB, 60 s, 1 GiB",
    "docs/how-it-works.md": "4-bit, 2k, 4k, 2.3 bytes",
    "docs/limits.md": "1 GB, 4GB, 32 MiB",
    "docs/research/benchmarks.md": ".25, 1/64, 1/128, 0.99",
    "docs/research/codes.md": "48 bytes, 0.25, 0.99",
    "docs/research/fusion.md": ".05, .5, 1.25",
    "docs/research/method.md": "0.99",
    "docs/research/similarity.md": ".25",
    "docs/serve.md": "4 MiB, 30 seconds, 8 MiB, 64 MiB",
    "docs/tuning.md": ".8",
}
"""Limits, defaults and formats of the software, settings of experiments, and published figures."""
BLOCK = re.compile(r"<!-- (\S+): begin -->.*?<!-- \1: end -->", re.DOTALL)
FROZEN = re.compile(r"<!-- frozen at (\w{8}): begin -->.*?<!-- frozen at \1: end -->", re.DOTALL)
MEASURED = re.compile(r"^Measured on .+, at `[0-9a-f]{7}`", re.MULTILINE)
MARK = re.compile(r"<!--[^>]*\b(?:begin|end) *-->")
NOT_PROSE = (
    re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"(?<=\])\([^)\s]*\)|https?://\S+"),
    re.compile(r"\b(?:Python|Milvus|DuckDB|Apache License) *[\d.]*\d(?: to [\d.]*\d)?"),
    re.compile(r"\b95%(?=\s+(?:lower )?(?:intervals?|confidence|bound)\b)"),
)
SPAN = re.compile(r"`([^`\n]*(?:\n[^`\n]+)?)`")
UNITS = (
    "%|percent|points?|times|fold|[x×kKM]|[mµn]?s|(?:milli)?seconds?|min(?:utes?)?|h|hours?|days?"
    "|bytes?|bits?|[kKMGT]?i?B|thousand|[mb]illion"
)
FIGURE = re.compile(
    r"(?<![\w@.,/-])[-+−~]?(?:"
    rf"[\d,.]*\d(?:[-–][\d,.]*\d)?[ -]?(?:{UNITS})(?!\w)"
    r"|\d{1,3}(?:,\d{3})+(?!\w)"
    r"|\d*\.\d+(?!\w|\.\d)"
    r"|\d+/\d+(?![\w/])"
    r"|(?<=factor of )\d+)"
)


def faults(page: str) -> Iterator[str]:
    """What a page states outside of generated blocks, and marks of blocks that nothing generates.

    >>> list(faults("It takes `2.5x`\\n the memory, 64 MiB in `--limit 3.5`."))
    ['2.5x', '64 MiB']
    """
    text = FROZEN.sub(_without_table, page)
    text = BLOCK.sub(lambda block: " " if block[1] in SECTIONS else block[0], text)
    yield from MARK.findall(text)
    for pattern in NOT_PROSE:
        text = pattern.sub(" ", text)
    text = SPAN.sub(lambda span: span[1] if FIGURE.fullmatch(span[1]) else " ", text)
    for figure in FIGURE.findall(" ".join(text.split())):
        if not is_round(figure):
            yield figure


def _without_table(block: re.Match[str]) -> str:
    """Drop a frozen block if it names its machine and commit; any other is a fault."""
    return " " if MEASURED.search(block[0]) else block[0]


def is_round(figure: str) -> bool:
    """Whether it is a number in the thousands, without a unit, that nobody has counted.

    >>> [is_round(figure) for figure in ("1,024", "20,000", "1,183,499", "20,000 ms", "1/4")]
    [True, True, False, False, False]
    """
    digits = figure.replace(",", "")
    if digits == figure or not digits.isdigit():
        return False
    return len(digits.rstrip("0")) <= 2 or int(digits).bit_count() == 1


def test_pages_state_no_measured_number_themselves() -> None:
    for page in PAGES:
        found = [*faults((ROOT / page).read_text(encoding="utf-8"))]
        constants = [each for each in CONSTANTS.get(page.as_posix(), "").split(", ") if each]
        assert {*found} == {*constants}, page
