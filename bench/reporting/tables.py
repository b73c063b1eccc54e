"""Tables: rows and columns of cells, for the page, the README and the docs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..rows import Row


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by."""

    shown: str
    value: float | str


@dataclass(frozen=True)
class Table:
    """Heads, rows of cells, and which columns are text."""

    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def text(self) -> list[bool]:
        """Whether each column holds words, by its first row."""
        return [isinstance(cell.value, str) and cell.value != "" for cell in self.rows[0]]

    def markdown(self) -> str:
        """As GitHub shows it."""
        lines = [list(self.heads), ["---" if t else "---:" for t in self.text]]
        lines += [[cell.shown for cell in row] for row in self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text(value: str) -> Cell:
    """A cell of words."""
    return Cell(value, value)


def number(value: float | None, form: str) -> Cell:
    """A cell of a number, empty for None."""
    return Cell("", "") if value is None else Cell(format(value, form), float(value))


def judged(row: Row) -> list[Cell]:
    """A row's nDCG@10, and its difference with its interval."""
    return [number(row["ndcg@10"], ".2f"), difference(row)]


def difference(row: Row) -> Cell:
    """That of a row's nDCG@10 from what it is compared with, with its interval."""
    delta, low, high = (row[f"ndcg@10_{name}"] for name in ("delta", "low", "high"))
    return Cell(f"{delta:+.2f} ({low:+.2f} to {high:+.2f})", delta)
