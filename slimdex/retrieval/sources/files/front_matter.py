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
from functools import cache
from typing import Any

COLUMNS: Mapping[str, str] = {
    "author": "VARCHAR",
    "date": "TIMESTAMP",
    "tags": "VARCHAR[]",
    "description": "VARCHAR",
    "language": "VARCHAR",
    "pages": "BIGINT",
    "front_matter": "JSON",
}
"""Metadata columns common to all kinds of files."""
NAMES = {
    "author": ("author", "authors", "creator", "by"),
    "date": ("date", "created", "published", "pubdate"),
    "tags": ("tags", "tag", "keywords", "categories", "category"),
    "description": ("description", "summary", "abstract", "subtitle", "excerpt"),
    "language": ("language", "lang"),
}
"""Column -> keys of front matter; the first with a value fills it."""
FENCES = {
    "---": re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.S | re.M),
    "+++": re.compile(r"\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*$\n?", re.S | re.M),
}
LARGEST = 1 << 16
"""Limit of front matter in characters. PyYAML and tomllib take time in proportion to the square
of this and the next limit."""
DEEPEST = 100
"""Limit of brackets within brackets, and of the parts of a key."""
BRACKET = re.compile(r"[\[\]{}]")
TYPED = re.compile(r"true|false|null|-?\d[\d.eE+-]*")
"""Plain values that may have a type in JSON."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    r"""Split front matter from a text; unparsable front matter stays in the text.

    >>> split_front_matter("---\ntitle: Tea\ntags: [a, b]\n---\nBoil water.\n")
    ({'title': 'Tea', 'tags': ['a', 'b']}, 'Boil water.\n')
    >>> split_front_matter("---\nversion: 1.10\nlanguage: no\ndraft: true\n---\n")[0]
    {'version': '1.10', 'language': 'no', 'draft': True}
    """
    fence = FENCES.get(text[:3])
    block = fence.match(text[:LARGEST]) if fence else None
    if block is None or _depth(block[1]) > DEEPEST:
        return {}, text

    # Convert values of types that JSON lacks, such as dates, to text.
    try:
        is_yaml = text[0] == "-"
        values = _yaml(block[1]) if is_yaml else tomllib.loads(block[1], parse_float=_as_typed)
        values = json.loads(json.dumps(values, default=_as_written, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return {}, text
    if not isinstance(values, dict):
        return {}, text
    return values, text[block.end() :]


def _depth(text: str) -> int:
    """Largest number of open brackets, or of dots in a line before its value.

    >>> _depth("a: [[1, 2], {b: c}]"), _depth("a.b.c = 1.5")
    (2, 2)
    """
    depth = 0
    deepest = 0
    for sign in BRACKET.findall(text):
        depth = depth + 1 if sign in "[{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    keys = (re.split("[=:]", line, maxsplit=1)[0] for line in text.split("\n"))
    return max(deepest, *(key.count(".") for key in keys))


def facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Columns filled by front matter; the column `front_matter` has all of it.

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
    """Parse a date in the format of ISO 8601, YAML, mail or PDF; in UTC if it has a zone.

    >>> moment("2024-05-01"), moment("D:20240501123000+02'00'")
    (datetime.datetime(2024, 5, 1, 0, 0), datetime.datetime(2024, 5, 1, 10, 30))
    >>> moment("2024-5-1 9:30:00 +2"), moment("D:20240501123000Z00'00'")
    (datetime.datetime(2024, 5, 1, 7, 30), datetime.datetime(2024, 5, 1, 12, 30))
    >>> moment("soon")
    """
    # Rewrite a date of PDF as ISO 8601.
    text = text.strip()
    if digits := re.match(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(.*)", text):
        year, month, day, hour, minute, second, zone = digits.groups()
        zone = "" if zone.startswith("Z") else zone.replace("'", "")  # "Z" or "Z00'00'" is UTC
        text = f"{year}-{month or '01'}-{day or '01'}T{hour or '00'}:{minute or '00'}:"
        text += f"{second or '00'}{zone}"

    # Read ISO 8601 as in YAML, or the date of a mail.
    for read in (_of_yaml, parsedate_to_datetime):
        try:
            date_ = read(text)
            return date_.astimezone(UTC).replace(tzinfo=None) if date_.tzinfo else date_
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _of_yaml(text: str) -> datetime:
    """Parse an ISO 8601 date, where YAML allows single digits and a space before the zone."""
    padded = re.sub(r"(?<![\d.])\d(?!\d)", r"0\g<0>", text)
    return datetime.fromisoformat(re.sub(r"(?<=\d)[ \t]+(?=[-+Z])", "", padded))


def _yaml(text: str) -> Any:
    """Parse a text in YAML; None if it is broken or has aliases."""
    import yaml  # few files need it

    try:
        # Nested aliases: a few lines can expand to gigabytes.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            return None
        return yaml.load(text, _loader())
    except yaml.YAMLError:
        return None


@cache
def _loader() -> Any:
    """Class of a YAML loader without the types of YAML 1.1, in which `no` is a boolean."""
    import yaml  # few files need it

    loader: Any = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    loader.add_implicit_resolver("!typed", re.compile(f"(?:{TYPED.pattern})$"), None)
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
