"""Text formats: exactly what a reader sees, and where its parts begin."""

from __future__ import annotations

import json
from base64 import encodebytes
from binascii import b2a_base64, b2a_qp
from datetime import datetime
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.documents import line_at
from slimdex.retrieval.sources.files import front_matter
from slimdex.retrieval.sources.files.formats import (
    html_pages,
    mail,
    markdown,
    readers,
    source_code,
    xml_files,
)
from slimdex.retrieval.sources.files.kinds import kind_of
from slimdex.retrieval.sources.files.limits import UnreadableError

from .reading import pieces

MARKDOWN = """\
---
title: Brewing tea
author: [Ann, Bo]
date: 2024-05-01
tags:
  - drinks
  - hot
draft: true
---
# Tea

Some *words* with `code`, a [link](http://a.b) and
![a picture](a.png).

## Steps {#how}

1. Boil
2. Pour
   - slowly

| leaf  | minutes |
|-------|---------|
| green | 2       |

```sh
kettle --on
```

## Tea

<p align="center">The <b>end</b></p>
"""


def test_markdown() -> None:
    tea = markdown.read(MARKDOWN)
    assert tea.title == "Brewing tea"
    assert pieces(tea) == [
        (("Tea",), "tea", "Tea\n\nSome words with code, a link and\na picture."),
        (
            ("Tea", "Steps"),
            "how",
            "Steps\n1. Boil\n2. Pour\n  - slowly\n\nleaf\tminutes\ngreen\t2\n\nkettle --on",
        ),
        (("Tea", "Tea"), "tea-1", "Tea\n\nThe end"),
    ]
    own = {
        "title": "Brewing tea",
        "author": ["Ann", "Bo"],
        "date": "2024-05-01",
        "tags": ["drinks", "hot"],
        "draft": True,
    }
    assert tea.facts == {
        "author": "Ann, Bo",
        "date": datetime(2024, 5, 1),
        "tags": ["drinks", "hot"],
        "front_matter": own,
    }


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hot.\n\n## Steps\n\nBoil.\n\n# Tea\n\n# Cups", "Tea"),
        ("Hot.\n\n## Steps\n\nBoil.\n\n## Cups", ""),
        ("## Tea\n\nHot.\n\n### Steps\n\nBoil.", "Tea"),
        ("## Steps\n\nBoil.\n\n## Cups\n\nWash.", ""),
        ("---\ntitle: Hot\n---\n# Tea", "Hot"),
    ],
)
def test_a_section_does_not_name_a_note(text: str, title: str) -> None:
    assert markdown.read(text).title == title


@pytest.mark.parametrize(
    ("text", "heading", "anchor"),
    [
        ("# Tea ## {#hot}", "Tea", "hot"),
        ("# Tea\n{: #hot }", "Tea", "tea"),
        ("(cold)=\nText\n\n# Tea", "Tea", "tea"),
        ("# Tea {.unnumbered}", "Tea", "tea"),
        ("> - # *Tea* {#hot}", "Tea", "hot"),
        ("# The set {1, 2}", "The set {1, 2}", "the-set-1-2"),
        ("# Code `{ #x }`", "Code { #x }", "code--x-"),
        ("# Jinja {{ #x }}", "Jinja {{ #x }}", "jinja--x-"),
        ("# Braces \\{#x}", "Braces {#x}", "braces-x"),
    ],
)
def test_attribute_lists_of_headings(text: str, heading: str, anchor: str) -> None:
    found = markdown.read(text)
    part = found.parts[-1]
    assert (found.title, part.headings, part.anchor) == (heading, (heading,), anchor)
    assert found.text.removeprefix("Text\n\n") == heading


ITEMS = ["#a", "#b-c_d.e", ".f", ".g-h", "key=val", 'title="x y"', "data-i='j'"]


@given(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4), st.sampled_from(["", ":"]))
def test_attribute_lists_as_python_markdown_reads_them(items: list[str], colon: str) -> None:
    written = pytest.importorskip("markdown").markdown
    attributes = f"{{{colon} {' '.join(items)} }}"
    blocks = [
        f"# One {attributes}",
        f"Two {attributes}\n===",
        f"A [b](c){attributes} `d`{attributes} *e*{attributes}\n{attributes}",
        f"End {attributes}.",
    ]
    text = "\n\n".join(blocks)
    page = html_pages.read(written(text, extensions=["attr_list"]).encode())
    found = markdown.read(text)
    assert found.text == page.text
    ids = [part.anchor for part in page.parts if part.headings]
    assert not any(ids) or [part.anchor for part in found.parts if part.headings] == ids


ALIASES = [
    "a0: &a0 [x, x, x, x, x, x, x, x, x]",
    *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)),
]
"""Gigabytes."""
WRITTEN_ALIASES = dict(alias.split(": ") for alias in ALIASES[2:])


@pytest.mark.parametrize(
    ("fence", "block"),
    [
        *(("---", ": ["), ("---", "- a"), ("+++", "a = "), ("---", "Ann,\nbring: tea\nor milk")),
        *(("---", "{" * 1001), ("---", "a: " + "[" * 16_000), ("---", "{\\" * 8_000)),
        *(("+++", "a." * 8_000 + "a = 1"), ("+++", "[" + "a." * 8_000 + "a]")),
    ],
)
def test_invalid_and_endless_front_matter_stays_in_the_text(fence: str, block: str) -> None:
    """PyYAML and tomllib would take seconds to minutes."""
    text = f"{fence}\n{block}\n{fence}\nText"
    assert front_matter.split_front_matter(text) == ({}, text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("---\ntitle: Trip\ndate: 2023-06-31\n---\n", {"title": "Trip", "date": "2023-06-31"}),
        (
            "---\non: a\nno: b\n010: c\n1.10: d\n~: e\ntrue: f\n---\n",
            {"on": "a", "no": "b", "010": "c", "1.10": "d", "~": "e", "true": "f"},
        ),
        (f"---\na: {'[' * 2}1.5{']' * 2}\n---\n", {"a": [[1.5]]}),
        ("---\nno end\n", None),
        ("\n<!-- a -->\n----\na: &a [b]\nc: *a\n----\n", {"a": ["b"], "c": ["b"]}),
        ("---\na: Tea: hot\nb: 'Ann's'\n---\n", {"a": "Tea: hot", "b": "Ann's"}),
        ("---\na: *****\nb:\n\t- 2\n# c\nd:\n---\n", {"a": "*****", "b": [2], "d": ""}),
        ("---\na: @ann\nb: [[c]], [[d]]\n---\n", {"a": "@ann", "b": "[[c]], [[d]]"}),
        ("---\na: >\n  b\n  c\n{{x}}\nd:\n- e: f\n---\n", {"a": "b c\n", "d": [{"e": "f"}]}),
        ("---\n" + "\n".join(ALIASES[:2]) + "\n---\n", {"a0": ["x"] * 9, "a1": [["x"] * 9] * 9}),
        ("---\na0: 1\n" + "\n".join(ALIASES[2:]) + "\n---\n", {"a0": 1} | WRITTEN_ALIASES),
    ],
)
def test_values_of_front_matter(text: str, values: dict[str, Any] | None) -> None:
    expected = ({}, f"{text}Text") if values is None else (values, "Text")
    assert front_matter.split_front_matter(f"{text}Text") == expected


DATES = """\
2024/05/01 = 2024-05-01 00:00:00
2024-5 = 2024-05-01 00:00:00
1890 = 1890-01-01 00:00:00
May 1st, 2024 = 2024-05-01 00:00:00
13.5.2024 = 2024-05-13 00:00:00
5.1.2024 = None
13/5/24 = None
2024-13-05 = None
2024-25 = None
2024-05; 2025-01 = None
2024-05-01 09:30:00 -0400 = 2024-05-01 13:30:00
2024-05-01 9 PM = 2024-05-01 21:00:00
"""


@pytest.mark.parametrize("line", DATES.splitlines())
def test_dates_as_people_write_them(line: str) -> None:
    text, date = line.split(" = ")
    values, _ = front_matter.split_front_matter(f"---\ndate: [[{text}]]\n---\n")
    assert str(front_matter.facts(values)["date"]) == date


WRITTEN = (
    *("No", "yes", "on", "off", "True", "12:30", "1:30:15", "2024-05-01", "1e3", "0x1F", "010"),
    *("0o17", "1_000", ".inf", ".NaN", "NaN", "~", "null", "true", "1.10", "1.0", "-0", "+5", "="),
    *("2024-05-01 12:00:00", "1e+22", "9" * 5000, "<<"),
)


@pytest.mark.parametrize("text", WRITTEN)
def test_a_text_of_front_matter_is_as_written(text: str) -> None:
    for mark in ("", "'", '"'):
        value = mark + text + mark
        names = ("title", "lang", "by", "abstract")
        block = "".join(f"{name}: {value}\n" for name in names) + f"keywords: [{value}]"
        found = markdown.read(f"---\n{block}\n---\nText")
        facts = [found.facts[name] for name in ("language", "author", "description", "tags")]
        assert (found.title, facts) == (text, [text, text, text, [text]])
        column = json.loads(json.dumps(found.facts["front_matter"]["lang"]))
        assert column == text or (mark == "" and json.dumps(column) == text)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none())
def test_front_matter_keeps_the_types_of_json(value: object) -> None:
    text = json.dumps(value)
    values, _ = front_matter.split_front_matter(f"---\nvalue: {text}\n---\n")
    assert values == {"value": value}
    assert front_matter.as_text(values["value"]) == text


PAGE = b"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<title>zip &#8212; Archives &#8212; Manual 3.1</title><style>p {}</style>
<meta name="author" content="Ann"></head><body>
<nav>Home</nav><div class="related">next | previous</div><header>Banner</header>
<div role="main"><section id="module-zip"><span id="zip-x"></span>
<h1>zip &#8212; Archives<a class="headerlink" href="#module-zip">\xc2\xb6</a></h1>
<p>Reads   <em>archives</em>.<br>Fast.</p><script>no()</script>
<dl class="py function"><dt id="zip.open"><code>zip.open</code>(<em>path</em>)<a
 class="headerlink" href="#zip.open">\xc2\xb6</a></dt><dd><p>Opens one.</p>
<dl><dt id="zip.open.close">close()</dt><dd><p>Closes it.</p></dd></dl></dd></dl>
<p>More of the module.</p>
<section id="limits"><h2>Limits</h2><ul><li><p>one</p></li><li>two</li></ul>
<table><tr><th>a</th><td><p>b</p></td></tr><tr><td>1</td><td>2</td></tr></table>
<pre>
x = 1
  y = 2
</pre></section></section></div>
<div class="sphinxsidebar">Contents</div><footer>Copyright</footer></body></html>"""


def test_html() -> None:
    page = html_pages.read(PAGE)
    assert page.title == "zip — Archives"
    assert page.facts == {"language": "en", "author": "Ann"}
    top = "zip — Archives"
    assert pieces(page) == [
        ((top,), "module-zip", "zip — Archives\n\nReads archives.\nFast."),
        ((top, "zip.open(path)"), "zip.open", "zip.open(path)\nOpens one."),
        ((top, "zip.open(path)", "close()"), "zip.open.close", "close()\nCloses it."),
        ((top,), "module-zip", "More of the module."),
        ((top, "Limits"), "limits", "Limits\n- one\n- two\n\na\tb\n1\t2\n\nx = 1\n  y = 2"),
    ]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (b"<p>a<p>b &amp; c &lt;d&gt;", "a\n\nb & c <d>"),
        (b"<body>no <b>tags<body> closed", "no tags closed"),
        (b"<article><h1>A</h1>in</article><p>out", "A\n\nin"),
        (b"<!-- <main> --><p>all", "all"),
        (b"<p hidden>no<p>yes", "yes"),
        (b"<ol><li>a<li>b<ul><li>c</ul></ol>", "1. a\n2. b\n- c"),
        (b"<a name=x></a><h2>X</h2>", "X"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rt>ji</ruby>".encode(), "漢字(kanji)"),
        (b"<p>Donau<wbr>dampf 1&#8209;24&nbsp;h&hellip;", "Donaudampf 1\u201124 h…"),
    ],
)
def test_html_as_found_in_the_wild(page: bytes, text: str) -> None:
    assert html_pages.read(page).text == text


def test_an_anchor_before_a_heading_is_its_own() -> None:
    page = html_pages.read(b"<p>a<p><a name=x></a><h2>X</h2><p>b<h2>Y</h2>")
    assert [part.anchor for part in page.parts] == ["", "x", ""]


def test_restructured_text() -> None:
    text = (
        "=====\nTitle\n=====\n\nSee :ref:`here <x>`.\n\n.. include:: /etc/passwd\n\n"
        "Sub one\n-------\n\n* one\n\n==== ====\na    b\n==== ====\n\nLonger\n---\n\n"
        "Deep\n~~~~\n\nx\n\nSub two\n-------\n"
    )
    found = markdown.read_rst(text)
    assert found.title == "Title"
    assert pieces(found) == [
        (("Title",), "title", "Title\n\nSee :ref:`here <x>`.\n\n.. include:: /etc/passwd"),
        (
            ("Title", "Sub one"),
            "sub-one",
            "Sub one\n\n* one\n\n==== ====\na    b\n==== ====\n\nLonger\n---",
        ),
        (("Title", "Sub one", "Deep"), "deep", "Deep\n\nx"),
        (("Title", "Sub two"), "sub-two", "Sub two"),
    ]


PYTHON = '''\
"""A module."""

import os


@cache
def first():
    return 1


class Box:
    """A box."""

    size = 2

    def open(self):
        pass

    full = True


print(first())
'''


def test_python() -> None:
    code = source_code.read(PYTHON, ".py")
    assert code.text == PYTHON.rstrip()
    assert pieces(code) == [
        ((), "L1", '"""A module."""\n\nimport os'),
        (("first",), "L6-L8", "@cache\ndef first():\n    return 1"),
        (("Box",), "L11-L19", 'class Box:\n    """A box."""\n\n    size = 2'),
        (("Box.open",), "L16-L17", "def open(self):\n        pass"),
        (("Box",), "L19", "full = True"),
        ((), "L22", "print(first())"),
    ]


@pytest.mark.parametrize(
    ("ending", "text", "headings"),
    [
        (
            ".js",
            "export class A {\n}\n\nasync function b(x) {\n}\n",
            [("A",), ("b",)],
        ),
        (
            ".rs",
            "impl Foo {\n    pub fn bar(&self) -> u8 {\n    }\n}\n",
            [("Foo",), ("Foo.bar",)],
        ),
        (".py", "def broken(:\n\nclass A:\n    def b(self):\n", [("broken",), ("A",), ("A.b",)]),
    ],
)
def test_code_without_its_grammar(
    ending: str, text: str, headings: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_code, "by_grammar", lambda text, ending: None)
    code = source_code.read(text, ending)
    assert code.text == text.rstrip()
    assert [part.headings for part in code.parts] == headings


MDX_PAGE = """\
---
title: Brewing
---
import { Tabs } from "x"
export const meta = {
  a: "no",
}

<Tabs sync={{ a: () => { no() } }}>
  <Tab
    title="Green tea"
    icon={<Icon />}
  >
    # Cups {/* no */}

    Eighty <b>degrees</b>, `<Cup size={1}>`<br/>of H<sub>2</sub>O
    ```python
    # comment
    import tea
    ```
  </Tab>
</Tabs>
"""


def test_mdx() -> None:
    page = readers.read("a.mdx", "markdown", MDX_PAGE.encode())
    text = "Green tea\n\nCups\n\nEighty degrees, <Cup size={1}>\nof H2O\n\n# comment\nimport tea"
    assert (page.title, page.text) == ("Brewing", text)
    assert [part.headings for part in page.parts] == [(), ("Cups",)]


def test_a_drawing_in_a_note() -> None:
    note = (
        "---\n\nexcalidraw-plugin: parsed\ntags: [excalidraw]\n\n---\n==⚠  Switch to VIEW ⚠==\n\n"
        "# Excalidraw Data\n\n## Text Elements\nGarden\nshed ^a1_-Xy7z\n\nWalls ^b\n\n%%\n"
        "## Drawing\n```compressed-json\nN4KAkARALgngDgUwgLgAQQQDwMYEMA2A\n```\n%%\n"
    )
    drawing = markdown.read(note)
    assert (drawing.title, drawing.text) == ("", "Garden\nshed\n\nWalls")


CUES = "00:01 --> 00:02.500 align:start\n<v Ann>Boil <i>it</i>.\n"


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        (
            "a.srt",
            "1\n00:00:01,000 --> 00:00:02,500\n{\\an8}Boil it.\n\n2\n0:1 --> 0:2\n42\n",
            [3, 7],
        ),
        ("a.vtt", f"WEBVTT - tea\nKind: captions\n\nSTYLE\n::cue {{}}\n\ncue 1\n{CUES}42", [9, 10]),
        ("a.sbv", "0:00:01.000,0:00:02.500\nBoil it.\n\n0:00:03.000,0:00:04.000\n42\n", [2, 5]),
        ("a.lrc", "[00:01.00][00:09.00]Boil it.\n[00:02.50]<00:02.60>42", [1, 2]),
        ("a.sub", "{25}{62}Boil it.\n{75}{100}{y:i}42\n", [1, 2]),
        (
            "a.ass",
            "[Script Info]\nTitle: x\n\n[V4+ Styles]\nStyle: a\n\n[Events]\nFormat: Layer, Text\n"
            "Dialogue: 0,0:00:01.00,0:00:02.50,Default,,0,0,0,,{\\i1}Boil\\Nit.\n"
            "Dialogue: 0,0:00:03.00,0:00:04.50,Default,,0,0,0,,42\n",
            [9, 10],
        ),
    ],
)
def test_subtitles_without_time_codes(name: str, text: str, lines: list[int]) -> None:
    found = readers.read(name, kind_of(name, text.encode()) or "", text.encode())
    assert found.text.split() == ["Boil", "it.", "42"]
    known = [pair for part in found.parts for pair in part.lines]
    assert [line_at(found.text, known, found.text.index(word)) for word in ("Boil", "42")] == lines


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"data": {"text/plain": ["2"], "text/html": "<b>3</b>"}}, "2"),
        (
            {
                "data": {
                    "text/plain": "<IPython.core.display.Markdown object>",
                    "text/markdown": ["**It** ", "leaks"],
                }
            },
            "It leaks",
        ),
        ({"data": {"text/html": ["<table><tr><td>a", "<td>b</table>"]}}, "a\tb"),
        ({"data": {"text/plain": "<Figure size 640x480 with 1 Axes>", "image/png": "AA"}}, ""),
        ({"data": {"text/plain": ["[<a.Line2D at 0x7f0a>,\n", " <a.Line2D at 0x7f0b>]"]}}, ""),
        ({"data": {"text/plain": "[<b>: 1 < 2]"}}, "[<b>: 1 < 2]"),
        ({"output_type": "error", "ename": "E", "evalue": "stuck", "traceback": ["x"]}, "E: stuck"),
        ({"output_type": "stream", "text": ["\x1b[31mred\x1b[0m\n", "x"]}, "red\nx"),
    ],
)
def test_outputs_of_every_form_are_text(output: dict[str, Any], text: str) -> None:
    cells = [{"cell_type": "code", "source": None, "outputs": [output]}]
    assert readers.read("a.ipynb", "notebook", json.dumps({"cells": cells}).encode()).text == text


@pytest.mark.parametrize(
    "note", ["Ibid.", "https://example.org/a", "<https://x.y>", 'Potter "On Kettles"', "See 2."]
)
def test_a_footnote_is_text(note: str) -> None:
    text = markdown.read(f"# N\n\nA claim[^a] or [two].\n\n[^a]: {note}\n\n[two]: x.md").text
    assert text == f"N\n\nA claim[^a] or two.\n\n[^a]: {note.strip('<>')}"


def test_the_codes_of_a_terminal_are_no_text() -> None:
    log = "\x1b]0;title\x07\x1b[1;31mE4031\x1b[0m: no \x1b[38;5;208mpressure\x1b(B\x1b[m\n"
    for name, kind in (("a.log", "text"), ("a.md", "markdown"), ("a.sh", "code"), ("a.rst", "rst")):
        assert readers.read(name, kind, log.encode()).text == "E4031: no pressure"


@pytest.mark.parametrize("key", ["description", "Summary", "excerpt"])
def test_a_description_is_the_text_of_a_note_without_another(key: str) -> None:
    found = markdown.read(f"---\ntitle: A kettle\ntags: [a]\n{key}: >\n  An old kettle\n---\n\n")
    assert (found.title, found.text) == ("A kettle", "An old kettle")
    assert markdown.read(f"---\n{key}: About\n---\nText").text == "Text"


OUTPUTS = [{"output_type": "pyout", "text": ["2"], "png": "AAAA"}]
NOTEBOOKS: dict[int, dict[str, Any]] = {
    3: {
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 1, "source": ["Tea"]},
                    {"cell_type": "code", "input": ["1 +", " 1"], "outputs": OUTPUTS},
                    {"cell_type": "heading", "level": 2, "source": "Hot"},
                    {"cell_type": "markdown", "source": ["Boil."]},
                ]
            }
        ]
    },
    4: {
        "cells": [
            {"id": "a", "cell_type": "markdown", "source": ["# Tea\n", "\n", "Hot."]},
            {
                "id": "b",
                "cell_type": "code",
                "source": "1 + 1",
                "outputs": [{"data": {"text/plain": ["2"], "image/png": "AAAA"}}],
            },
        ]
    },
}
PARTS: dict[int, list[tuple[tuple[str, ...], str, str]]] = {
    3: [
        (("Tea",), "tea", "Tea"),
        (("Tea",), "", "1 + 1\n\n2"),
        (("Tea", "Hot"), "hot", "Hot"),
        (("Tea", "Hot"), "", "Boil."),
    ],
    4: [(("Tea",), "tea", "Tea\n\nHot."), (("Tea",), "cell-id=b", "1 + 1\n\n2")],
}


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_notebooks(number: int) -> None:
    book = {"nbformat": number, "metadata": {}, **NOTEBOOKS[number]}
    found = markdown.read_notebook(json.dumps(book))
    assert pieces(found) == PARTS[number]
    assert found.title == "Tea"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"cells": {"a": 1}}', '{"nbformat": 4}'])
def test_what_is_no_notebook_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match="not a notebook: "):
        markdown.read_notebook(text)


FORMULA = "<m:math xmlns:m='urn:m'><m:mfrac><m:mn>1</m:mn> <m:mn>2</m:mn></m:mfrac></m:math>"
XMLS = [
    (
        "<book><title>Tea</title><para>Boil <emphasis>it</emphasis>.</para><programlisting>a\n  b"
        "</programlisting><list><item>one</item><item>two</item></list></book>",
        "Tea\n\nBoil it.\n\na\n  b\none\ntwo",
    ),
    (
        "<rss><channel><title>News</title><link>http://a.b/c</link><item><title>One</title>"
        "<description>&lt;p>Good &lt;b>tea&lt;/b>&amp;amp; cake&lt;/p></description></item>"
        "</channel></rss>",
        "News\n\nOne\nGood tea& cake",
    ),
    (
        '<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry><title>One</title>'
        '<content type="xhtml"><div><p>Good <b>tea</b></p></div></content></entry></feed>',
        "News\n\nOne\n\nGood tea",
    ),
    (
        '<svg xmlns="http://www.w3.org/2000/svg"><style>a{}</style><desc>A boiler</desc>'
        "<text><tspan>Hot</tspan><tspan>water</tspan></text><path d='M0'/></svg>",
        "A boiler\nHot\nwater",
    ),
    (
        "<plist><dict><key>Name</key><string>Tea</string><key>On</key><true/><key>Tags</key>"
        "<array><string>hot</string></array><key>Icon</key><data>QUJD</data></dict></plist>",
        "Name\nTea\nOn\nTags\nhot\nIcon",
    ),
    ("<html xmlns='http://www.w3.org/1999/xhtml'><body><p>Page</p></body></html>", "Page"),
    (
        '<w:wordDocument xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml"><w:p><w:r>'
        "<w:t>Boi</w:t></w:r><w:r><w:t>ler</w:t></w:r></w:p></w:wordDocument>",
        "Boiler",
    ),
    ('<!DOCTYPE a [<!ENTITY v "1.2">]><a>Tea &v; &lt;</a>', "Tea 1.2 <"),
    ('<!DOCTYPE a PUBLIC "x" "a.dtd"><a>Caf&eacute;&nbsp;&mdash; open</a>', "Café — open"),
    ("<a><!-- not --><?not this?><![CDATA[<b> & &c;]]></a>", "<b> & &c;"),
    # One word after another, and words that go on.
    (
        "<a><p><k><c>Ctrl</c><c>C</c></k>, <m><g>File</g><g>Open</g></m>, <g>no</g>, "
        "boil<xref>1</xref>, [<xref>2</xref>]</p><p>nine<index><t>bar</t></index> bar</p></a>",
        "Ctrl C, File Open, no, boil 1, [2]\n\nnine bar bar",
    ),
    ("<p>har\n<lb break='no'/> bour<pb/>10<hi rend='superscript'>6</hi></p>", "harbour\n10^6"),
    ("<p>Do <screen>a\n  b</screen> it</p>", "Do\na\n  b\nit"),
    ("<pre><b>c</b>\n<b>d</b></pre>", "c\nd"),
    (f"<a><p>x {FORMULA}<tex-math>1</tex-math></p>{FORMULA}</a>", "x 1/2\n1/2"),
    # Fragments and templates.
    ("<b>One</b> two\n<b>three</b>", "One two three"),
    ("<!DOCTYPE a><a>{% if a < b %}<b>one</b></c> two</a>", "{% if a b %}one two"),
    ("@HEAD@<a><b>one", "@HEAD@one"),
    # Texts in attributes.
    ("<o><title>Tea</title><i t='Boil it' id='a b'><i t='Pour'/></i></o>", "Tea\nBoil it\nPour"),
    ("<m id='c1d'><p n='a.CAMERA' x='7'/><p n='a.CAMERA' of='c1d' u='7dp'/></m>", "a.CAMERA"),
    ("<g><c value='&lt;b>Log in&lt;/b>' style='a b'/></g>", "Log in"),
    (
        "<t><c n='Kettle.boils'/><c n='Kettle.whistles'><f>a log of many words</f></c></t>",
        "Kettle.boils\nKettle.whistles\na log of many words",
    ),
    ("<a class='x y' of='cde'>A long text.</a>", "A long text."),
    ("  ", ""),
]
"""XML file -> its text."""


@pytest.mark.parametrize(("data", "text"), XMLS)
def test_texts_of_xml(data: str, text: str) -> None:
    assert readers.read("a.xml", "xml", data.encode()).text == text


def test_entities_of_xml_read_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "secret.dtd").write_text("<!ENTITY own 'secret'>")
    address = (tmp_path / "secret").as_uri()
    own = f'<!DOCTYPE a [<!ENTITY f SYSTEM "{address}.txt">]><a>Tea &f;</a>'
    assert xml_files.read(own.encode()).text == "Tea"
    other = f'<!DOCTYPE a SYSTEM "{address}.dtd"><a>Tea &own;</a>'
    assert xml_files.read(other.encode()).text == "Tea own"


ARTICLE = (
    "<article><front><journal-meta><journal-title>J</journal-title></journal-meta><article-meta>"
    "<title-group><article-title>On <i>scale</i></article-title></title-group></article-meta>"
    "</front><sec><title>Methods</title><p>Forty.</p></sec>"
    "<ref><article-title>Other</article-title></ref></article>"
)
BOOK = (
    "<FictionBook><title-info><book-title>Tea</book-title></title-info><body><section>"
    "<title><p>One</p><p>day</p></title><p>It rained.</p></section></body></FictionBook>"
)


@pytest.mark.parametrize(
    ("data", "title", "last"),
    [
        (ARTICLE, "On scale", (("Methods",), "", "Methods\n\nForty.")),
        (BOOK, "Tea", (("One day",), "", "One day\n\nIt rained.")),
    ],
)
def test_titles_of_articles_and_books(data: str, title: str, last: object) -> None:
    found = xml_files.read(data.encode())
    assert found.title == title
    assert last in pieces(found)


def test_sections_of_xml() -> None:
    section = "<section><title>{0}</title><para>In {0}.</para>{1}</section>"
    data = "<book><info><title>Tea</title></info>" + section.format("A", section.format("B", ""))
    found = xml_files.read((data + section.format("C", "") + "<p>End</p></book>").encode("utf-16"))
    assert found.title == "Tea"
    assert pieces(found)[1:] == [
        (("A",), "", "A\n\nIn A."),
        (("A", "B"), "", "B\n\nIn B."),
        (("C",), "", "C\n\nIn C."),
        ((), "", "End"),
    ]


def test_xml_that_does_harm_is_read_in_linear_time() -> None:
    entities = "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12))
    bomb = f'<!DOCTYPE a [<!ENTITY a0 "aaaaaaaaaa">{entities}]><a>&a12;</a>'
    assert xml_files.read(bomb.encode()).text == "a12"
    with pytest.raises(UnreadableError, match="broken: "):
        xml_files.read(b"<a><b></a>")
    n = 20_000
    assert xml_files.read(b"<a>x<b>y</b>" * n + b"</a>" * n).text == "xy" * n
    assert xml_files.read(b"<a><b>y</b>" * n + b"</a>" * n).text == "\n".join("y" * n)


TREES = st.recursive(
    st.sampled_from(["tea", "hot", " ", "\n  ", "a&amp;b"]),
    lambda inner: st.tuples(
        st.sampled_from(["a", "b", "para", "item"]), st.lists(inner, max_size=4)
    ).map(lambda found: f"<{found[0]}>{''.join(found[1])}</{found[0]}>"),
    max_leaves=12,
)


@given(TREES)
def test_all_words_of_xml_are_read_in_order(tree: str) -> None:
    data = f"<root>{tree}</root>"
    expected = "".join("".join(ElementTree.fromstring(data).itertext()).split())
    assert "".join(xml_files.read(data.encode()).text.split()) == expected


def test_mail_in_parts() -> None:
    data = (
        b"From: =?utf-8?q?Ann_B=C3=B6?= <a@b.c>\r\nSubject: =?utf-8?b?w4RwZmVs?=\r\n"
        b"Date: Wed, 1 May 2024 12:00:00 +0200\r\nMessage-ID: <1@b.c>\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n'
        b'--x\r\nContent-Type: multipart/alternative; boundary="y"\r\n\r\n'
        b"--y\r\nContent-Type: text/plain; charset=latin-1\r\n\r\nGr\xfc\xdfe\r\n"
        b"--y\r\nContent-Type: text/html\r\n\r\n<p>Gr&uuml;&szlig;e an</p>\r\n--y--\r\n"
        b"--x\r\nContent-Type: application/pdf\r\n"
        b"Content-Disposition: attachment; filename=a.pdf\r\n\r\n%PDF\r\n--x--\r\n"
    )
    found = mail.read(data)
    assert (found.title, found.text) == ("Äpfel", "Grüße\nAttached: a.pdf")
    assert found.facts == {"author": "Ann Bö <a@b.c>", "date": datetime(2024, 5, 1, 10)}
    assert mail.message_id(data) == "1@b.c"
    page = b"Content-Type: text/html\n\n<p>Only <b>this</b></p>"
    assert mail.read(page).text == "Only this"


def of_parts(kind: str, *parts: bytes) -> bytes:
    """A message of parts, each with its own headers."""
    lines = b"".join(b"--b\n" + part + b"\n" for part in parts)
    return b'Content-Type: multipart/%b; boundary="b"\n\n%b--b--\n' % (kind.encode(), lines)


HTML = b"Content-Type: text/html; charset=utf-8\n\n<p>340 \xe2\x82\xac"


@pytest.mark.parametrize(
    "blank",
    ["", "\n\n \t\n", "\xa0", "\xad\u2060\u034f\u200b", "\u3164\u2800"],
)
def test_mail_of_which_the_plain_text_is_blank(blank: str) -> None:
    plain = b"Content-Type: text/plain; charset=utf-8\n\n" + blank.encode()
    calendar = b"Content-Type: text/calendar\n\nBEGIN:VCALENDAR"
    related = of_parts("related", HTML).replace(b'"b"', b'"c"').replace(b"--b", b"--c")
    for parts in ([plain, HTML], [HTML, plain], [plain, HTML, calendar], [plain, related]):
        assert mail.read(of_parts("alternative", *parts)).text == "340 €"
    assert mail.read(of_parts("mixed", plain, HTML)).text == "340 €"
    said = b"Content-Type: text/plain\n\nYour client shows no HTML."
    assert mail.read(of_parts("alternative", said, HTML)).text == "Your client shows no HTML."
    only_image = b"Content-Type: image/png; name=a.png\n\nx"
    assert mail.read(of_parts("alternative", plain, only_image)).text == "Attached: a.png"


@pytest.mark.parametrize(
    ("plain", "is_stub"),
    [
        ("Your client shows no HTML.", True),
        ("Hello Ann, see https://example.org/" + "a1b2" * 50, True),
        ("このメールはHTMLです。", True),
        ("Hello Ann, parcel\n7781 with your kettle comes\non Friday.", False),
        (
            "Parcel 7781: kettle, Friday. The page that goes with it looks nicer, but says less.",
            False,
        ),
    ],
)
def test_a_plain_text_that_is_a_stub(plain: str, is_stub: bool) -> None:
    text = "Hello Ann, parcel 7781 with your kettle comes on Friday."
    parts = [b"Content-Type: text/plain; charset=utf-8\n\n" + plain.encode()]
    parts.append(b"Content-Type: text/html\n\n<p>" + text.encode())
    data = b"Subject: A\n" + of_parts("alternative", *parts)
    expected = text if is_stub else plain
    assert mail.read(data).text == expected
    of_apple = b"%d\n%b<?xml version='1.0'?><plist/>" % (len(data), data)
    assert (mail.read(of_apple).title, mail.read(of_apple).text) == ("A", expected)


BODIES = [
    ("us-ascii", b"\x93Tea\x94", "“Tea”"),
    ("ISO-2022-JP", b"\x1b$B-!%\\\x1b(B", "①ボ"),
    ("gb2312", b"\xd6\xec\xe9F", "朱镕"),
    ("gb2312", b"\xd2\xbb", "一"),  # valid UTF-8 by chance
    ("unknown-8bit", b"caf\xe9 cr\xe8me", "café crème"),
    ("", "Größe".encode(), "Größe"),
]


@pytest.mark.parametrize(("charset", "data", "text"), BODIES)
def test_charsets_of_mail(charset: str, data: bytes, text: str) -> None:
    plain = b"Content-Type: text/plain; charset=%b\n\n%b" % (charset.encode(), data)
    assert mail.read(plain).text == text
    page = b"Content-Type: text/html; charset=%b\n\n<meta charset=koi8-r><p>%b"
    if charset:
        assert mail.read(page % (charset.encode(), data)).text == text
        own = b"Content-Type: text/html\n\n<meta charset=%b><p>%b" % (charset.encode(), data)
        assert mail.read(own).text == text
    packed = b2a_base64(data)
    head = b"Content-Type: text/plain; charset=%b\nContent-Transfer-Encoding: base64\n\n"
    assert mail.read(head % charset.encode() + packed).text == text
    if charset:
        word = b"=?%b?B?%b?=" % (charset.encode(), packed.strip())
        name = b"filename*=%b''%b" % (charset.encode(), quote(data).encode())
        whole = b"Subject: %b\nContent-Disposition: attachment; %b\n\nx" % (word, name)
        found = mail.read(whole)
        assert (found.title, found.text) == (text, f"Attached: {text}")


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("=?gb2312?B?1uw=?= =?GB2312?q?=E9F?=", "朱镕"),
        ("=?utf-8?B?5pyx6Q==?=\n =?utf-8?B?lZU=?=", "朱镕"),  # half a character in each
        ("=?iso-2022-jp?B?GyRCLSEbKEI=?= a", "① a"),
        ("=?utf-8*en?q?Gr=C3=B6=C3=9Fe_1?==?utf-8?q?_2?=", "Größe 1 2"),
        ("=?us-ascii?q?=93Tea=94?=", "“Tea”"),
        ("=?utf-8?q?Is it? Yes.?=", "Is it? Yes."),
        ("=?utf-8?x?what?=", "=?utf-8?x?what?="),
        ("Gr\xf6\xdfe", "Größe"),
        ("Größe".encode().decode("latin-1"), "Größe"),
    ],
)
def test_headers_of_mail(header: str, text: str) -> None:
    found = mail.read(b"Subject: %b\n\nx" % header.encode("latin-1"))
    assert found.title == text
    found = mail.read(b'From: "%b" <a@b.c>\n\nx' % header.encode("latin-1"))
    assert found.facts["author"].replace('"', "") == f"{text} <a@b.c>"
    named = b'Content-Disposition: attachment; filename="%b"\n\nx' % header.encode("latin-1")
    assert mail.read(named).text == f"Attached: {text}"


INNER = (
    "From: Ann <a@b.c>\nSubject: Descaling the kettle\nContent-Type: text/plain; charset=utf-8\n"
    "Content-Transfer-Encoding: 8bit\n\nIt needs vinegar, a café spoon = one."
).encode()
READ = "Descaling the kettle\n\nIt needs vinegar, a café spoon = one."
ENCODED = b"Content-Type: message/rfc822\nContent-Transfer-Encoding: %b\n\n%b"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (of_parts("mixed", b"\nOne", b"\nTwo").removesuffix(b"--b--\n"), "One\n\nTwo"),
        (b"Content-Type: multipart/mixed; boundary=x\n\nNo parts", "No parts"),
        (b"Content-Type: multipart/mixed\n\nNo parts", "No parts"),
        (  # an attachment whose name is in several parts
            b"Content-Type: application/pdf\nContent-Disposition: attachment;\n"
            b" filename*0*=gb2312''%D6%EC%E9;\n filename*1*=F.p;\n filename*2=df\n\nx",
            "Attached: 朱镕.pdf",
        ),
        (b"Content-Transfer-Encoding: base64\n\nVGVh*IQ", "Tea!"),
        (b"Content-Transfer-Encoding: quoted-printable\n\nT=65a =ZZ=\n!", "Tea =ZZ!"),
        (
            of_parts("mixed", b"\nSee", b"Content-Type: message/rfc822\n\n" + INNER),
            f"See\n\n{READ}",
        ),
        (of_parts("digest", b"\n" + INNER, b"\n" + INNER), f"{READ}\n\n{READ}"),
        (of_parts("mixed", ENCODED % (b"base64", encodebytes(INNER))), READ),
        (of_parts("mixed", ENCODED % (b"Quoted-Printable", b2a_qp(INNER))), READ),
        (of_parts("mixed", ENCODED % (b"base64", b"Subject: A\n\nB")), "A\n\nB"),
        (b"Subject: Nothing else\n\n", "Nothing else"),
        (
            b"Content-Type: text/plain; format=flowed; delsp=yes\n\nOne \nline\n> A \n> b\n-- \nc",
            "Oneline\n> Ab\n-- \nc",
        ),
    ],
)
def test_mail_as_found_in_the_wild(data: bytes, text: str) -> None:
    assert mail.read(data).text == text


SEPARATORS = [
    "From ann@example.org Wed May  1 12:00:00 2024",
    "From - Mon Jan 01 00:00:00 2024",
    "From ann@example.org Fri Jul  8 12:08:34 EST 2011",
    "From ann@example.org 2024-05-01T12:00:00Z",
    '"From "ann b"@example.org\tWed May  1 12:00:00 2024'[1:],
]
LINES_OF_TEXT = [
    "From now on the valve must be checked.",
    "From Monday May 6 at 12:00 the office is closed.",
    "From what I see, Wed May  1 12:00:00 2024 was warm",
    "From ",
    "From: ann@example.org",
]


@pytest.mark.parametrize("first", SEPARATORS)
def test_what_separates_messages(first: str) -> None:
    end = b"\r\n" if " - " in first else b"\n"
    lines = [*LINES_OF_TEXT, "> From a", ">From a", ">>From a", "end"]
    kept = [line.replace(">From", "From", 1) for line in lines]
    for between in ([], [""]):  # with an empty line before a separator, and without
        box = [first, "Subject: A", "", *[text for line in lines for text in ("", line)], *between]
        data = "\n".join([*box, first, "Subject: B", "", "b", ""]).encode().replace(b"\n", end)
        body = "\n".join(["Subject: A", "", *[t for line in kept for t in ("", line)], ""])
        expected = [body.encode().replace(b"\n", end), b"Subject: B\n\nb\n".replace(b"\n", end)]
        assert [*mail.messages(BytesIO(data))] == expected


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("LICENSE", b"Copyright", "text"),
        ("a", b'<?xml version="1.0"?>\n<!-- x --><html>', "html"),
        ("a", b"From ann@b.c Wed May  1 12:00:00 2024\nFrom: a\n", "mailbox"),
        ("a", b"Received: x\n y\nFrom: a@b.c\n", "mail"),
        ("cur/17.M1.host:2,S", b"X-TUID: a\r\nFrom: a@b.c\r\nMIME-Version: 1.0\r\n", "mail"),
        ("a", b"Project: x\nFrom: Ann\nTo: Bob\nDate: Monday\n", "text"),
        ("a", b"Note: this\n\nis text", "text"),
        ("run", b"#!/bin/sh\n", "code"),
        ("a.md", b"PK\x03\x04....mimetypeapplication/epub+zip", "epub"),
        ("a.zip", b"PK\x03\x04....", None),
        ("a", b"PK\x03\x04....mimetypeapplication/vnd.oasis.opendocument.presentation", "odp"),
        ("a.fodt", b"<?xml version='1.0'?>", "odt"),
        ("a", b"<?xml version='1.0'?>\n<rss>", "xml"),
        ("a", b"\x89PNG\r\n\x1a\n\x00", None),
        ("a.json", b"{}", None),
        ("a.ts", b'<?xml version="1.0"?>\n<!DOCTYPE TS><TS language="de">', None),
        ("a.ts", b"<!DOCTYPE TS>\n<TS>", None),
        ("a.ts", b"<T>(a: T) => a", "code"),
        ("a.php", b'<?xml version="1.0"?>\n<?php', "code"),
        ("a.tsx", b'<?xml version="1.0"?><tileset>', "xml"),
        ("a.mm", b'<map version="1.0.1">', "xml"),
    ],
)
def test_kinds(name: str, head: bytes, kind: str | None) -> None:
    assert kind_of(name, head) == kind


SEEN = [
    *("# A", "## B", "### C", "text", "- item", "1. one", "```", "> quote", "    code", "def f():"),
    *("class A:", "    def g(self):", "====", ".. note:: x", "* a", "<p>x", "<h2 id=y>", "</h2>"),
    *("<dl><dt id=z>", "</dl>", "<table><tr><td>", "<ul><li>", "\x0c", "", " a ", " b ", ""),
    *("<div>", "</main>", "<main>", "<pre>", "é\u2028\x00", "|---|---|"),
]
LINES = st.lists(st.sampled_from(SEEN), max_size=30)


@given(LINES, st.sampled_from(["markdown", "html", "rst", ".py", ".c"]))
def test_parts_are_in_order_and_within_the_text(lines: list[str], kind: str) -> None:
    text = "\n".join(lines)
    if kind == "html":
        found = html_pages.read(text.encode())
    elif kind.startswith("."):
        found = source_code.read(text, kind)
    else:
        of = {"markdown": markdown.read, "rst": markdown.read_rst}[kind]
        found = of(text)
    starts = [part.start for part in found.parts]
    assert all(a < b for a, b in pairwise(starts))
    assert not starts or ((starts[0] == 0 or kind.startswith(".")) and starts[-1] < len(found.text))
    for part in found.parts:
        assert not found.text[part.start].isspace() or kind.startswith(".")
    if kind.startswith("."):  # code is as it was, but for what nobody sees
        assert found.text == text.replace("\x00", "").replace("\f", "").rstrip()
