"""Front matter: metadata before a Markdown text, in YAML or TOML, and its columns.

Values are text, as written. Only a plain value that JSON writes in the same way, such as `true`,
`null`, `7` and `2.5`, has that type in the column `front_matter`; other columns use its text.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import Any

NAMES = {
    "title": ("title",),
    "author": ("author", "authors", "creator", "by"),
    "date": ("date", "created", "published", "pubdate"),
    "tags": ("tags", "tag", "keywords", "categories", "category"),
    "description": ("description", "summary", "abstract", "subtitle", "excerpt"),
    "language": ("language", "lang"),
}
"""Column -> keys of front matter; the first with a value fills it."""
BLOCK = re.compile(
    r"(?>[ \t]*\n|<!--.*?-->)*+(-{3,}|\+{3})[ \t]*\n(.*?)^(?:\1|\.{3})[ \t]*$\n?", re.S | re.M
)
"""Front matter between fences, perhaps after blank lines and comments."""
ENTRY = re.compile(r"^[^\s#\-\]}].*(?:\n(?:[ \t#\-\]}].*)?)*", re.M)
"""A line of YAML that is not indented, and those that belong to it."""
KEY = re.compile(r"([\w-][\w .-]*):((?:\s.*)?)", re.S)
MOST_ALIASES = 10
"""Limit of references: nested ones can expand a few lines to gigabytes."""
LARGEST = 1 << 15
"""Limit of front matter in characters."""
MOST_BRACKETS = 1000
"""Limit of open brackets. PyYAML and tomllib take time in proportion to the square of both."""
TYPED = re.compile(r"true|false|null|-?\d[\d.eE+-]*")
"""Plain values that may have a type in JSON."""
YEAR = re.compile(r"(?<![\d+])(?<!\s-)[12]\d{3}(?!\d)")
YEAR_FIRST = re.compile(r"^(\d{4})(?:[-/.](\d\d?)\b[-/.]?|$)")
"""A year, and perhaps a month, before a day."""
INVALID = (ValueError, TypeError, IndexError, OverflowError, RecursionError)
"""Errors that parsers raise for invalid text."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    r"""Split front matter from a text; unparsable front matter stays in the text.

    >>> split_front_matter("---\ntitle: Tea\ntags: [a, b]\n---\nBoil water.\n")
    ({'title': 'Tea', 'tags': ['a', 'b']}, 'Boil water.\n')
    >>> split_front_matter("---\nversion: 1.10\nlanguage: no\ntitle: Tea: hot\n---\n")[0]
    {'version': '1.10', 'language': 'no', 'title': 'Tea: hot'}
    """
    block = BLOCK.match(text[:LARGEST])
    if block is None or sum(map(block[2].count, "[{")) > MOST_BRACKETS:
        return {}, text
    parse = _entries if block[1][0] == "-" else partial(tomllib.loads, parse_float=_as_typed)
    try:  # types that JSON lacks, such as dates, become text
        text_of_values = json.dumps(parse(block[2]), default=_as_written, allow_nan=False)
        values = {**json.loads(text_of_values)}
    except INVALID:
        return {}, text
    return values, text[block.end() :]


def facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """The title and columns filled by front matter; the column `front_matter` has all of it.

    >>> facts({"Keywords": ["a", "b"], "date": "2024-05-01", "draft": True})["tags"]
    ['a', 'b']
    """
    # A column takes the value of the first of its keys that has one. Of keys that differ only in
    # case, the first counts.
    lowered = {str(key).lower(): value for key, value in reversed(list(values.items()))}
    columns: dict[str, Any] = {}
    for column, keys in NAMES.items():
        read = tags if column == "tags" else as_text
        value: Any = next(filter(None, (read(lowered.get(key, "")) for key in keys)), None)
        if value is not None:
            columns[column] = moment(value) if column == "date" else value
    if values:
        columns["front_matter"] = dict(values)
    return columns


def tags(value: Any) -> list[str]:
    """Parse tags: items of a list, or parts separated by commas or semicolons.

    >>> tags("tea, hot drinks"), tags(["tea", {"name": "hot, or not"}])
    (['tea', 'hot drinks'], ['tea', 'hot, or not'])
    """
    parts = value if isinstance(value, list) else re.split("[,;]", as_text(value))
    return [*filter(None, map(as_text, parts))]


def as_text(value: Any) -> str:
    """Format a value on one line as it was written; lists are joined by commas.

    >>> as_text(["No", True, 1.5, {"name": "Ann"}])
    'No, true, 1.5, Ann'
    """
    if isinstance(value, dict):
        return as_text(value.get("name", ""))
    if isinstance(value, list):
        return ", ".join(filter(None, map(as_text, value)))
    return " ".join((value if isinstance(value, str) else json.dumps(value)).split())


def moment(text: str) -> datetime | None:
    """Parse a date of ISO 8601, mail or PDF, or as people write it; in UTC if it has a zone.

    None if it is none, or if its day may be the month.

    >>> moment("2024-05-01"), moment("D:20240501123000+02'00'")
    (datetime.datetime(2024, 5, 1, 0, 0), datetime.datetime(2024, 5, 1, 10, 30))
    >>> moment("2024-5-1 9:30:00 +2"), moment("D:20240501123000Z00'00'")
    (datetime.datetime(2024, 5, 1, 7, 30), datetime.datetime(2024, 5, 1, 12, 30))
    >>> moment("[[2024-05]]"), moment("May 1st, 2024"), moment("5/1/2024")
    (datetime.datetime(2024, 5, 1, 0, 0), datetime.datetime(2024, 5, 1, 0, 0), None)
    """
    # Rewrite a date of PDF as ISO 8601; "Z" or "Z00'00'" is UTC.
    text = text.strip("[] \t\n")
    if text.startswith("D:"):
        text = re.sub(r"(\d{8})(?=\d)", r"\1T", re.sub("D:|Z.*|'", "", text), count=1)
    for read in (datetime.fromisoformat, parsedate_to_datetime, _of_people):
        try:
            date_ = read(text)
            return date_.astimezone(UTC).replace(tzinfo=None) if date_.tzinfo else date_
        except INVALID:
            continue
    return None


def _of_people(text: str) -> datetime:
    """Parse a date in English; raises `ValueError` if its day and month may be swapped."""
    from dateutil.parser import parse  # few files need it

    (_,) = YEAR.findall(text)
    text = YEAR_FIRST.sub(lambda found: f"{found[1]} {date(1, int(found[2] or 1), 1):%b} ", text)
    date_: datetime
    (date_,) = {
        parse(text, default=datetime(1, 1, 1), dayfirst=is_day, tzinfos=lambda _, zone: zone)
        for is_day in (False, True)
    }
    return date_


def _entries(block: str) -> dict[str, Any]:
    """Parse YAML; if it is invalid, parse its entries one by one, and keep invalid ones as text.

    Raises `ValueError` if most of it is no entries.
    """
    try:
        return _yaml(block)
    except INVALID:
        entries = ENTRY.findall(block)
    values: dict[str, Any] = {}
    for entry in entries:
        try:
            values |= _yaml(entry.expandtabs())
        except INVALID:
            if key := KEY.fullmatch(entry):
                values[key[1]] = " ".join(key[2].split()).strip("'\"")
    if 2 * len(values) <= len(entries):
        raise ValueError("no front matter")
    return values


def _yaml(text: str) -> dict[str, Any]:
    """Parse a mapping in YAML; raises one of `INVALID` for anything else."""
    import yaml  # few files need it

    try:
        aliases = sum(isinstance(token, yaml.AliasToken) for token in yaml.scan(text))
        values: Any = yaml.load(text, _loader()) if aliases <= MOST_ALIASES else None
    except yaml.YAMLError:
        values = None
    return {**values}


@cache
def _loader() -> Any:
    """Class of a YAML loader without the types of YAML 1.1, in which `no` is a boolean."""
    import yaml  # few files need it

    loader: Any = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    loader.add_implicit_resolver("!typed", re.compile(rf"\A(?:{TYPED.pattern})\Z"), None)
    loader.add_constructor("!typed", lambda loader, node: _as_typed(loader.construct_scalar(node)))
    return loader


def _as_typed(text: str) -> Any:
    """Value of a text in JSON, if JSON writes it in the same way; else the text."""
    try:
        value = json.loads(text) if TYPED.fullmatch(text) else text
    except ValueError:
        return text
    return value if json.dumps(value) == text else text


def _as_written(value: Any) -> str:
    return value.isoformat() if isinstance(value, date | datetime) else str(value)
