"""Tables: declared columns of rows of results, for the page, README and docs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..rows import Row

Rows = Sequence[Row]
BY_TASK = ("set", "model")


@dataclass(frozen=True)
class Cell:
    """A shown text, and the value that it is sorted by."""

    shown: str
    value: float | str


EMPTY = Cell("", "")
NOT_MEASURED = Cell("–", "")


@dataclass(frozen=True)
class Table:
    """Heads and rows of cells."""

    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def text(self) -> list[bool]:
        """For each column, True if it contains words, judged by the first row."""
        return [isinstance(cell.value, str) and cell.value != "" for cell in self.rows[0]]

    def texts(self) -> tuple[list[str], list[list[str]]]:
        """Return the heads, and the shown texts of each row."""
        rows = []
        for row in self.rows:
            rows.append([cell.shown for cell in row])
        return [*self.heads], rows

    def markdown(self) -> str:
        """Format the table as GitHub's markdown."""
        heads, rows = self.texts()
        rules = ["---" if is_text else "---:" for is_text in self.text]
        lines = [" | ".join(line) for line in (heads, rules, *rows)]
        return "\n".join(f"| {line} |" for line in lines)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    head : its name in the table.
    of : the column of the row, or a function from a row to its value; None leaves the cell empty.
    form : format of a number; "" for text.
    unit : divisor of a number.
    """

    head: str
    of: str | Callable[[Row], Any]
    form: str = ""
    unit: float = 1

    def cell(self, row: Row) -> Cell:
        """Make the cell of a row; a function may return a whole cell."""
        value = row.get(self.of) if isinstance(self.of, str) else self.of(row)
        if value is None:
            return EMPTY
        if isinstance(value, Cell):
            return value
        if not self.form:
            return Cell(value, value)

        # Keep the number itself for sorting.
        value = value if self.unit == 1 else value / self.unit
        return Cell(format(value, self.form), float(value))


def without_errors(rows: Iterable[Row]) -> list[Row]:
    """Rows without an error."""
    return [row for row in rows if "error" not in row]


def with_column(name: str) -> Callable[[Rows], list[Row]]:
    """Return a function that selects the rows with a column and without an error."""

    def with_it(rows: Rows) -> list[Row]:
        return [row for row in without_errors(rows) if name in row]

    return with_it


def rows_where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Rows whose columns have these values.

    >>> rows_where([{"set": "a", "k": 1}, {"set": "b", "k": 1}], k=1, set="b")
    [{'set': 'b', 'k': 1}]
    """
    matches = []
    for row in rows:
        if all(row[name] == value for name, value in values.items()):
            matches.append(row)
    return matches


def values_of(rows: Iterable[Row], column: str) -> list[Any]:
    """Values of a column, in the order of the rows."""
    return [row[column] for row in rows]


def columns_named(form: str, *names: str) -> tuple[Column, ...]:
    """Columns with the names of the rows' columns, in one format."""
    return tuple(Column(name, name, form) for name in names)


@dataclass(frozen=True, kw_only=True)
class TableDeclaration:
    """Tables of an experiment: one, or one for each group of rows; those that have lines.

    Attributes
    ----------
    experiment : start of the names of its files of rows.
    title, note : formatted with the group's first row; the note may be a function of its rows.
        Pages leave out the title's first words, which end with a colon.
    columns : of a group, or a function of its rows.
    apart : end of the title if there are several groups.
    by : columns whose values make the groups; if empty, all rows are one.
    where : required values of columns.
    prepared : rows -> those that are grouped.
    lines : the group's rows -> those that are shown.
    sort : column to sort the lines by, ascending, or descending with "-" before it.
    marks : name in the marks of a page; "" if only the report has the tables.
    libraries : packages whose versions pages give below the tables.
    chosen : rows -> those that pages show.
    """

    experiment: str
    title: str
    columns: Sequence[Column] | Callable[[Rows], Sequence[Column]]
    note: str | Callable[[Rows], str] = ""
    apart: str = ""
    by: Sequence[str] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    prepared: Callable[[Rows], Rows] = list
    lines: Callable[[Rows], Sequence[Row]] = without_errors
    sort: str = ""
    marks: str = ""
    libraries: Sequence[str] = ()
    chosen: Callable[[Rows], Rows] = list

    def __call__(self, rows: Rows) -> list[Table]:
        """Make the tables of rows."""
        rows = rows_where(rows, **self.where)
        groups = group_rows(self.prepared(rows), *self.by).values()
        end = self.apart if len(groups) > 1 else ""

        # Make no table for groups without lines.
        tables = []
        for group in groups:
            table = self._table(group, self.title + end)
            if table.rows:
                tables.append(table)
        return tables

    def _table(self, rows: Rows, title: str) -> Table:
        """Make the table of a group's rows, which is empty if the group has no lines."""
        lines = list(self.lines(rows))
        if not lines:
            return Table("", "", (), ())
        if self.sort:
            name = self.sort.removeprefix("-")
            sign = -1 if self.sort.startswith("-") else 1
            lines.sort(key=lambda row: sign * row[name])
        note = self.note.format_map(rows[0]) if isinstance(self.note, str) else self.note(rows)
        columns = self.columns(rows) if callable(self.columns) else self.columns
        return make_table(title.format_map(rows[0]), note, columns, lines)


def make_table(title: str, note: str, columns: Sequence[Column], rows: Iterable[Row]) -> Table:
    """Make a table with a line for each row."""
    heads = [column.head for column in columns]
    lines = []
    for row in rows:
        lines.append([column.cell(row) for column in columns])
    return Table(title, note, heads, lines)


def group_rows(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows by the values of columns, in the order of the rows."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        values = tuple(row[name] for name in names)
        groups.setdefault(values, []).append(row)
    return groups


def difference(row: Row) -> Cell:
    """Return a cell with the difference of nDCG@10 from its reference, and its interval."""
    delta = row["ndcg@10_delta"]
    low = row["ndcg@10_low"]
    high = row["ndcg@10_high"]
    return Cell(f"{delta:+.2f} ({low:+.2f} to {high:+.2f})", delta)


def failures(rows: Iterable[Row], name: str = "method") -> str:
    """Format "; failed: ..." with the failed methods and reasons; "" if there are none."""
    failed = dict[str, None]()
    for row in rows:
        if "error" in row:
            failed[f"{row[name]} ({row['error']})"] = None
    return f"; failed: {', '.join(failed)}" if failed else ""


def by_way(base: str) -> Callable[[Rows], list[Row]]:
    """Return a function that selects the rows of the way `base`, one for each set and model.

    Each has a further column `ways`, which maps each way to its row for the same set and model. A
    way is what an experiment compares, such as a search, a fusion or some rules of ranking.
    """

    def lines(rows: Rows) -> list[Row]:
        of_base = []
        for group in group_rows(without_errors(rows), *BY_TASK).values():
            ways = {row["way"]: row for row in group}
            if base in ways:
                of_base.append(ways[base] | {"ways": ways})
        return of_base

    return lines


def of_way(way: Hashable, value: str | Callable[[Row], Any]) -> Callable[[Row], Any]:
    """Return a function that makes a cell from the row of another way.

    The cell is the column `value` of that row, or the result of calling `value` with the row; a
    dash if the way or the column was not measured.
    """

    def cell(row: Row) -> Any:
        row_of_way = row["ways"].get(way)
        if row_of_way is None:
            return NOT_MEASURED
        return row_of_way.get(value, NOT_MEASURED) if isinstance(value, str) else value(row_of_way)

    return cell


SET_AND_MODEL = columns_named("", *BY_TASK)
