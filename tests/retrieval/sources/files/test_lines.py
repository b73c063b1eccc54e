"""Lines of a hit are the lines of its file, whatever its text leaves out or joins."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from slimdex.retrieval.documents import Document, line_at
from slimdex.retrieval.sources.files.formats import readers
from slimdex.retrieval.sources.files.outline import Extract

from .reading import read

MARK = re.compile(r"w\d+w")
"""A word that occurs once in a file, by which the line of the text is compared with the file's."""

FRONT_MATTER = "---\ntitle: House\ntags:\n  - seed\n---\n\n"
BLOCKS = [
    "# W",
    "W\n===",
    "## W ##",
    "W W",
    "W\nW\n  W",
    "W  \nW\\\nW<br>W",
    "W `W\nW` W\nW",
    "[W\nW](a.md\n'W') W\nW",
    "![W\nW](a.png) W\nW",
    "*W\nW* **W** W<!-- x\ny -->\nW",
    "- W\n- W\n  W\n\n  W\n  - W",
    "1. W\n\n2. W\n   W\n3. W",
    "- [ ] W\n-\n  W",
    "- W\n  ![](a.png)\n  <br>\n  &nbsp;",
    "![](a.png)\n<br>\n[![](b.svg)](c)\nW\n<video controls>\n  <source src='a.mp4'>\n</video>",
    "> W\n> W\n>\n> > W\nW",
    "| W | W |\n|---|---|\n| W | W |\n| W | |",
    "```py\nW\n\n\nW W\n```",
    "~~~\n\n  W\n~~~",
    "    W\n\n    W",
    "<div>\n\nW\n\n</div>",
    "<details>\n<summary>W</summary>\n<p\n  class=x>W <b>W</b>\nW</p>\n</details>",
    "<ul>\n<li>W\n<li>W</ul>",
    "<!-- a\ncomment -->",
    "[a]: https://example.org\n  'title'",
    "[b]: x.md\nW\nW",
    "***",
    "(target)=\n# W {#id}\n{: .x }\nW\n{: .y }\nW",
    "W\n(target)=\nW\n{: .x }\nW W",
    "W \u2028 W &amp;\x0c W\x0b\nW \x85W",
]


def numbered(template: str, numbers: Iterator[int]) -> str:
    return re.sub("W", lambda _: f"w{next(numbers)}w", template)


def lines_in_file(text: str) -> dict[str, int]:
    return {
        mark: number
        for number, line in enumerate(text.split("\n"), start=1)
        for mark in MARK.findall(line)
    }


def lines_in_text(of: Extract | Document) -> dict[str, int]:
    lines = [pair for part in of.parts for pair in part.lines]
    return {found[0]: line_at(of.text, lines, found.start()) for found in MARK.finditer(of.text)}


def check(name: str, kind: str, text: str) -> None:
    extract = readers.read(name, kind, text.encode())
    found, expected = lines_in_text(extract), lines_in_file(text)
    assert found == {mark: expected[mark] for mark in found}
    assert found or not expected


@example("", [(block, "\n\n") for block in BLOCKS], "")
@given(
    st.sampled_from(["", FRONT_MATTER, FRONT_MATTER.replace("---", "+++").replace(":", " =")]),
    st.lists(st.tuples(st.sampled_from(BLOCKS), st.sampled_from(["\n\n", "\n\n\n\n", "\n"]))),
    st.sampled_from(["", "\n", "\n\n \n"]),
)
def test_lines_of_markdown_are_those_of_the_file(
    front_matter: str, blocks: list[tuple[str, str]], before: str
) -> None:
    numbers = count(1)
    body = "".join(numbered(block, numbers) + after for block, after in blocks)
    check("a.md", "markdown", front_matter + before + body)


RST = """

.. a comment

W

=====
W
=====



W
W

W
---------
W

W
=========

::

  W
"""


def test_lines_of_other_texts_are_those_of_the_file() -> None:
    check("a.rst", "rst", numbered(RST, count(1)))
    check("a.txt", "text", numbered("\n\n\n  \nW\n\n\nW\x0c\nW", count(1)))
    check("a.py", "code", numbered("\n\n\ndef W():\n    pass\n\n\n\nW = 1\n", count(1)))
    check("a.go", "code", numbered("\n\n// W\nfunc W() {\n}\n", count(1)))


def test_lines_do_not_depend_on_how_a_file_is_stored(tmp_path: Path) -> None:
    text = FRONT_MATTER + numbered("# W\n\nW\nW\n\n- W\n", count(1))
    stored = {
        "plain.md": text.encode(),
        "crlf.md": text.replace("\n", "\r\n").encode(),
        "mark.md": b"\xef\xbb\xbf" + text.encode(),
        "utf-16.md": text.encode("utf-16"),
        "a.md.gz": gzip.compress(text.encode()),
    }
    for name, data in stored.items():
        (tmp_path / name).write_bytes(data)
    documents, _ = read(tmp_path)
    assert set(documents) == set(stored)
    for document in documents.values():
        assert lines_in_text(document) == lines_in_file(text)
