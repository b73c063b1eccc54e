"""A passage and its excerpt begin and end in the lines of the file that are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from slimdex.errors import InputError
from slimdex.retrieval import commands
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Hit, hit_from_json, hit_json
from slimdex.retrieval.search.excerpts import nearest_by_words
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server.line_ranges import read_lines
from tests.encoders import ReadingEncoder

FRONT_MATTER = ["---", "title: House", "tags:", "  - seed", "---", "", "# w0w", ""]
TEMPLATE = "\n".join(
    [*["W W W", "W W", "W W W W.", "", ""] * 50, "| W | W |", "|---|---|", "| W | W |"]
)
NUMBERS = count(1)
BODY = re.sub("W", lambda _: f"w{next(NUMBERS)}w", TEMPLATE)
LINES = [*FRONT_MATTER, *BODY.split("\n")]
IN_FILE = {mark: n for n, line in enumerate(LINES, 1) for mark in re.findall(r"w\d+w", line)}


def check(text: str, first: int | None, last: int | None) -> None:
    """The first and the last marked word of a text are in these lines of the file."""
    marks = re.findall(r"w\d+w", text)
    assert (first, last) == (IN_FILE[marks[0]], IN_FILE[marks[-1]])


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Collection]:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "house.md").write_text("\n".join(LINES))
    page = "\n\n\n<title>Page</title>\n\n<p>a page\n" + "of roses and tulips " * 20
    (tmp_path / "notes" / "page.html").write_text(page)
    with Collection.create(tmp_path / "x", ENCODER) as collection:
        collection.sync(tmp_path / "notes")
        yield collection


ENCODER = ReadingEncoder(max_length=24)
QUERY = "w252w w253w"


def passages(collection: Collection) -> list[Hit]:
    hits = collection.search(QUERY, 100, group_by="passage", hybrid="off")
    return [hit for hit in hits if hit.id == "house.md"]


def test_passages_and_excerpts_have_lines_of_the_file(house: Collection) -> None:
    found = passages(house)
    assert len(found) > 20
    for hit in found:
        check(hit.text, hit.line, hit.last_line)
        assert hit_from_json(hit_json(hit)).line_at(len(hit.text) - 1) == hit.last_line
        (mark, *_) = re.findall(r"w\d+w", hit.text[len(hit.text) // 2 :])
        for part in (nearest_by_words(mark, hit, 40), nearest_by_words(mark, hit)):
            shown = part.text.strip("…")
            check(shown, part.line, part.last_line)
            assert hit.text[part.start : part.end].split() == shown.split()
    request = SearchRequest(texts=QUERY, limit=100, group_by="passage")
    answer = commands.search(house.index, request, excerpts=True)
    assert answer.excerpts is not None
    for hit, part in zip(answer.hits[0], answer.excerpts[0], strict=True):
        if hit.id == "house.md":
            check(part.text, part.line, part.last_line)
        else:
            assert (hit.line, hit.last_line, part.line) == (None, None, None)


def test_lines_are_read_by_the_numbers_of_the_file(house: Collection) -> None:
    for hit in passages(house):
        assert hit.line is not None
        asked = [("house.md", hit.line, hit.last_line)]
        (read,) = read_lines(house.index, asked, 10_000)
        assert hit.text in read["text"]
        check(read["text"], read["line"], read["last_line"])
        assert house.get("house.md").text[read["start"] :].startswith(read["text"])
    (whole,) = read_lines(house.index, [("house.md", 1, None)], 100_000)
    assert whole["text"] == house.get("house.md").text
    assert (whole["line"], whole["last_line"], whole["lines"]) == (7, len(LINES), len(LINES))
    (first,) = read_lines(house.index, [("house.md", 9, None)], 100)
    after = len(first["text"]) - len(first["text"].rstrip())
    check(first["text"], first["line"], first["last_line"] - after)
    (none,) = read_lines(house.index, [("house.md", 2, 3)], 100)
    assert (none["text"], none["line"], none["last_line"]) == ("", 2, 2)
    for wrong in (0, len(LINES) + 1):
        with pytest.raises(InputError, match=f"within its lines 1-{len(LINES)}"):
            read_lines(house.index, [("house.md", wrong, None)], 100)
