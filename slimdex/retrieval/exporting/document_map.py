"""Map of the documents: a page with a point for each, placed by meaning, in named regions.

The page asks nothing of other hosts. Documents are untrusted: their texts are in the page only as
compressed base64, so that none can end an element; the script shows them as text, and the page's
policy lets no other script run.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.system.atomic_files import check_new, publish_file
from slimdex.system.extras import require
from slimdex.system.index_names import index_name
from slimdex.system.progress import progress
from slimdex.system.suggestions import with_suggestions

from ..documents import Document, visible_values
from ..index import Index
from ..search.excerpts import on_one_line, shorten
from ..store.snapshot import Snapshot
from .placing import AXES, SEED, names_of_clusters, place, regions_of
from .selection import REDUCED, Selection

if TYPE_CHECKING:
    from ..collection import Collection

MOST_DOCUMENTS = 50_000
"""Documents on a map; of more, a random sample is shown."""
CLUSTER_SIZE = 40
MOST_CLUSTERS = 36
"""There are sqrt(n / CLUSTER_SIZE) clusters, regions of the map."""
STEPS = 9999
"""Steps of a coordinate."""
EXCERPT = 160
LONGEST_NAME = 100
"""Characters of a text and of a title or id that are shown."""
FILES = Path(__file__).parent / "page"
COLOURS = 9
"""Most values of a column with a colour of their own."""
RANGES = 6
"""Ranges of a column with an order and more values."""
MOST_COLUMNS = 12
"""Most columns offered."""
LONGEST_VALUE = 40
"""Characters of a value."""
OTHERS = "other values"
NO_VALUE = "no value"


@dataclass(frozen=True)
class DocumentMap:
    """A map that was written."""

    path: Path
    documents: int  # on it
    total: int  # that it is a sample of
    clusters: Sequence[str]  # their names, the largest first


@with_suggestions
def write_map(collection: Collection, path: str | Path, *, where: str | None = None) -> DocumentMap:
    """Write a page with a point for each document, at most 50,000: near ones are about the same.

    Documents without text are left out. A document of several passages is placed by their mean.

    Parameters
    ----------
    path : must not exist.
    where : a DuckDB expression on the documents' columns that selects documents.

    Raises `InputError` if the path exists, no document is selected or a library is missing.
    """
    return map_index(collection.index, Path(path), where)


def map_index(index: Index, path: Path, where: str | None = None) -> DocumentMap:
    """Write a map of an index: see `write_map`."""
    check_new(path, "file")
    require("a map", "map")

    def write(new: Path) -> DocumentMap:
        return index.read(lambda snapshot: _write(snapshot, where, new, path))

    return publish_file(path, write)


def _write(snapshot: Snapshot, where: str | None, new: Path, path: Path) -> DocumentMap:
    """Write the map of a snapshot to the file `new`, which will be renamed to `path`."""
    # Documents are identified by their first rows. If there are too many, take a random sample.
    selection = Selection.of(snapshot, REDUCED, where)
    all_firsts = np.unique(selection.firsts(selection.rows))
    firsts = all_firsts
    if len(all_firsts) > MOST_DOCUMENTS:
        sample = np.random.default_rng(SEED).choice(all_firsts, MOST_DOCUMENTS, replace=False)
        firsts = np.sort(sample)

    # Place the documents, and find clusters among them.
    progress("placing documents", 0, len(firsts))
    X = normalize_rows(np.ascontiguousarray(_vectors(selection, firsts)[:, :AXES]))
    places = place(X)
    count = max(min(round((len(X) / CLUSTER_SIZE) ** 0.5), MOST_CLUSTERS), 1)
    clusters = regions_of(places, count)
    progress("placing documents", len(firsts), len(firsts))

    # Name the clusters by the documents' texts, and write the page.
    by_row = snapshot.documents(firsts.tolist())
    documents = [by_row[row] for row in firsts.tolist()]
    names = names_of_clusters((document.content for document in documents), clusters)
    data = _data(documents, places, clusters, names) | {"total": len(all_firsts)}
    new.write_text(_page(index_name(snapshot.path), data), encoding="utf-8")
    return DocumentMap(path, len(documents), len(all_firsts), names)


def _vectors(selection: Selection, firsts: Rows) -> Matrix:
    """Mean reduced vectors (n, k) of the documents with these first rows, at unit length."""
    rows = selection.rows[np.isin(selection.firsts(selection.rows), firsts)]
    # The rows of a document are consecutive, so sum from each start to the next.
    _, starts = np.unique(selection.firsts(rows), return_index=True)
    parts = [selection.take(part) for part in np.array_split(rows, len(rows) // 8192 + 1)]
    return normalize_rows(np.add.reduceat(np.concatenate(parts), starts, axis=0))


def _data(
    documents: Sequence[Document], places: Matrix, clusters: Rows, names: Sequence[str]
) -> dict[str, Any]:
    """Return the data of the page as JSON values, with lists in the order of the documents."""
    steps = np.round(places * STEPS).astype(int)
    values = [visible_values(document.metadata) for document in documents]
    texts = []
    for document in documents:
        line = on_one_line(document.text[: 4 * EXCERPT])
        texts.append(shorten(line, EXCERPT))
    return {
        "x": steps[:, 0].tolist(),
        "y": steps[:, 1].tolist(),
        "steps": STEPS,
        "ids": [document.id[:LONGEST_NAME] for document in documents],
        "titles": [document.title[:LONGEST_NAME] for document in documents],
        "texts": texts,
        "clusters": {"name": "cluster", "labels": names, "codes": clusters.tolist()},
        "columns": [asdict(colouring) for colouring in colourings(values)],
    }


def _page(name: str, data: dict[str, Any]) -> str:
    """Return the HTML of the page, which contains its style, script and data."""
    style = (FILES / "map.css").read_text("utf-8")
    script = (FILES / "map.js").read_text("utf-8")
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)
    parts = {
        "POLICY": f"default-src 'none'; script-src '{_digest(script)}'; "
        f"style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'",
        "NAME": html.escape(name),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": base64.b64encode(packed).decode(),
    }
    template = (FILES / "map.html").read_text("utf-8")
    # In one pass: a placeholder within an inserted part stays text.
    return re.sub("%%(.*?)%%", lambda match: parts[match[1]], template)


def _digest(text: str) -> str:
    """Return a source for a content security policy that allows only this script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@dataclass(frozen=True)
class Colouring:
    """A column of documents."""

    name: str
    labels: Sequence[str]  # values, or ranges of them
    codes: Sequence[int]  # place in `labels` for each document
    ordered: bool = False  # True if the labels have an order


def colourings(rows: Sequence[Mapping[str, Any]]) -> list[Colouring]:
    """Return columns to colour by: those whose values repeat, or have an order.

    `rows` are the values of each document. At most `MOST_COLUMNS` columns are returned.

    >>> rows = [{"kind": "a", "text": i, "n": i} for i in "xyz"] + [{"kind": "a"}]
    >>> [(each.name, each.labels, each.codes) for each in colourings(rows)]
    [('kind', ['a'], [0, 0, 0, 0])]
    """
    names = dict.fromkeys(chain.from_iterable(rows))
    colourings = list[Colouring]()
    for name in names:
        colouring = _colouring(name, [row.get(name) for row in rows])
        if colouring is not None:
            colourings.append(colouring)
        if len(colourings) == MOST_COLUMNS:
            break
    return colourings


def _colouring(name: str, values: Sequence[Any]) -> Colouring | None:
    """Return the colouring by a column; None if most of its values occur only once.

    `values` has a value, or None, for each document.
    """
    existing = [value for value in values if value is not None]
    counts = Counter(map(str, existing))
    if len(counts) > COLOURS and _has_order(existing):
        return _in_ranges(name, values, sorted(existing))
    if not existing or 2 * len(counts) > len(existing):
        return None

    # The most frequent values have a colour of their own, and all others share one.
    labels = [value for value, _ in counts.most_common(COLOURS)]
    code_of = {label: i for i, label in enumerate(labels)}
    if len(counts) > COLOURS:
        labels.append(OTHERS)
    codes = []
    for value in values:
        code = code_of.get(str(value), len(labels) - 1)
        codes.append(len(labels) if value is None else code)  # one more code, for no value
    return _make_colouring(name, labels, codes)


def _has_order(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers, or all dates, or all times."""
    kinds = {type(value) for value in values}
    return kinds <= {int, float, Decimal} or kinds in ({date}, {datetime})


def _in_ranges(name: str, values: Sequence[Any], ordered: Sequence[Any]) -> Colouring:
    """Return the colouring by ranges of values, with about equally many documents each.

    `ordered` has the values in order, without None.
    """
    starts = [ordered[i * len(ordered) // RANGES] for i in range(RANGES)]
    starts = [*dict.fromkeys(starts)]  # a frequent value may fill several ranges

    # The code of a value is the number of its range, whose label ends with the highest value.
    codes = []
    highest = list(starts)
    for value in values:
        if value is None:
            codes.append(len(starts))
            continue
        code = bisect_right(starts, value) - 1
        codes.append(code)
        highest[code] = max(highest[code], value)
    labels = []
    for low, high in zip(starts, highest, strict=True):
        labels.append(str(low) if low == high else f"{low} – {high}")
    return _make_colouring(name, labels, codes, ordered=True)


def _make_colouring(
    name: str, labels: list[str], codes: Sequence[int], ordered: bool = False
) -> Colouring:
    """Create a colouring; the code `len(labels)` stands for documents without a value."""
    if max(codes) == len(labels):
        labels = [*labels, NO_VALUE]
    return Colouring(name, [label[:LONGEST_VALUE] for label in labels], codes, ordered)
