"""Tables: declared columns that show rows of results, for the page, the README and the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...rows import Row


@dataclass(frozen=True)
class Cell:
    """A shown text, and the value that it is sorted by."""

    shown: str
    value: float | str


EMPTY = Cell("", "")


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


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    head : its name in the table.
    of : the column of the row, or a function from a row to its value; None leaves the cell empty.
    form : how a number is formatted; "" for text.
    unit : what a number is divided by.
    """

    head: str
    of: str | Callable[[Row], Any]
    form: str = ""
    unit: float = 1

    def cell(self, row: Row) -> Cell:
        """The cell of a row; a function may return it whole."""
        value = row.get(self.of) if isinstance(self.of, str) else self.of(row)
        if value is None or isinstance(value, Cell):
            return value or EMPTY
        if not self.form:
            return Cell(value, value)
        value = value if self.unit == 1 else value / self.unit
        return Cell(format(value, self.form), float(value))


def tabulated(title: str, note: str, columns: Sequence[Column], rows: Iterable[Row]) -> Table:
    """A line for each row."""
    lines = [[column.cell(row) for column in columns] for row in rows]
    return Table(title, note, [column.head for column in columns], lines)


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Values of these columns -> the rows that have them, in the order of the rows."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def change(name: str = "ndcg@10", form: str = "+.2f") -> Callable[[Row], Cell]:
    """The difference of a measure from what it is compared with, and its interval."""

    def cell(row: Row) -> Cell:
        delta, low, high = (row[f"{name}_{part}"] for part in ("delta", "low", "high"))
        return Cell(f"{delta:{form}} ({low:{form}} to {high:{form}})", delta)

    return cell


def failures(rows: Iterable[Row], name: str) -> str:
    """ "; failed: ..." with what the rows name and why, "" if none failed."""
    failed = [f"{row[name]} ({row['error']})" for row in rows if "error" in row]
    return f"; failed: {', '.join(dict.fromkeys(failed))}" if failed else ""
