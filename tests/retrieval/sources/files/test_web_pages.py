"""Web pages as browsers show them, without their frame, which is never most of the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.sources.files.formats import html_pages, markdown, readers

STORY = "<p>The kettle was serviced in May, and its valve replaced.</p>"
STORY_TEXT = "The kettle was serviced in May, and its valve replaced."
UNREAD = [
    "<script>document.write('<script src=a></scr' + 'ipt><div></div></header>')</script>",
    "<script><!-- '<div>' </script><!-- <select> -->",
    "<!-- <select><title> -->",
    "<div title='<select><template>'></div>",
    "<select><option>A<option><b>B</b></select>",
    "<svg><path d='a'/><title>A</title><text>A</text></svg>",
    f"<svg>{'<path d=a />' * 1000}<text>A</text></svg>",
    "<svg><foreignObject><p>A</p></foreignObject></svg>",
    "<object data=a><p>A</p></object>",
    "<template><div><table><tr><td>A</table></div></template>",
    "<textarea><div>A</div></textarea>",
]


@pytest.mark.parametrize("element", UNREAD)
def test_elements_that_are_ended_stay_unread(element: str) -> None:
    page = f"<body><header>Shop</header><div>{element}{STORY}</div>"
    assert html_pages.read(page.encode()).text == STORY_TEXT


MAINS = [
    f"<main><h1>Kettles</h1></main><section><div>{STORY}</div></section>",
    f"<h1>Kettles</h1><div>{STORY}</div><article><h3>Also read: cake</h3></article>",
    f"<main id=player><p>Kettles</p></main><div id=content>{STORY}</div>",
    f"<a href=#c>Kettles</a><div role=main id=c></div><div>{STORY}</div>",
    f"<main><h1>Kettles</h1></main><main>{STORY}</main><div>Newsletter</div>",
    f"<main><h1>Kettles</h1></main><article>{STORY}</article><div>Newsletter</div>",
    f"<body class=related><nav>Home</nav><h1>Kettles</h1>{STORY}",
    f"<div class='page sidebar'><h1>Kettles</h1>{STORY}<footer>Newsletter</footer></div>",
    f"<header><h1>Kettles</h1>{STORY}</header><p>Newsletter",
    f"<aside><div>{STORY}</div></aside><nav><h1>Kettles</h1></nav>",
]
"""Pages whose story is elsewhere than their elements say."""


@pytest.mark.parametrize("page", MAINS)
def test_the_larger_part_is_read(page: str) -> None:
    assert STORY_TEXT in html_pages.read(page.encode()).text


MATH = "<math><msup><mi>x</mi><mn>2</mn></msup></math>"
USUAL = [
    (f"<main><h1>Kettles</h1>{STORY}</main><div>Newsletter</div>", f"Kettles\n\n{STORY_TEXT}"),
    (f"<article>{STORY}</article><div>Also read</div>", STORY_TEXT),
    (f"<nav>{'<a href=a>Kettles of all kinds</a> ' * 9}</nav>{STORY}", STORY_TEXT),
    (f"<div id=footer>Imprint</div>{STORY}<div class=sharedaddy>Share</div>", STORY_TEXT),
    (f"<div hidden>Loading</div>{STORY}", STORY_TEXT),
    (f"<article>{STORY}<footer>Ann</footer></article>", f"{STORY_TEXT}\n\nAnn"),
    (f"<noscript>Please enable JavaScript.</noscript>{STORY}", STORY_TEXT),
    (
        f"<noscript><p>Two bars, and one bar.</noscript>{STORY}",
        f"Two bars, and one bar.\n\n{STORY_TEXT}",
    ),
    (f"<frameset><frame src=a><noframes><body>{STORY}</noframes></frameset>", STORY_TEXT),
    (f"<noscript><div><img src=x></noscript><div>{STORY}</div>", STORY_TEXT),
    (f"<noscript><table><tr><td>{STORY}</table></noscript>", STORY_TEXT),
    ("<h3><button aria-expanded=false>How long?</button></h3>One hour.", "How long?\n\nOne hour."),
    ("<button>How long?</button><div>One hour.</div>", "How long?\n\nOne hour."),
    ("<div hidden=until-found>One hour.</div><p>Two.", "One hour.\n\nTwo."),
    ("<svg><title>Logo</title><text>Logo</text></svg><p>One hour.", "One hour."),
    ("<table>One hour<tr><td>a<td>b</table>", "One hour\n\na\tb"),
    ("<table><tr><td>a<td><td>b<tr><td><td>c</table>", "a\t\tb\n\tc"),
    (
        "<table><tr><th colspan=2>a<th>b<tr><td rowspan=2>c<td rowspan=9>d<td>e<tr><td>f</table>"
        "<table><tr><td>g",
        "a\t\tb\nc\td\te\n\t\tf\n\ng",
    ),
    ("<figure><img alt='A kettle'></figure><p>One hour.", "A kettle\n\nOne hour."),
    ("a <img alt=b><noscript><img alt=b></noscript><img alt=''>", "a b"),
    (
        "<svg role=img aria-label=Sales></svg><svg><title>Sales of tea</title></svg>",
        "Sales Sales of tea",
    ),
    ("<script type='math/tex'>x<2</script> <script>no</script>", "x<2"),
    (f"<i><b>{MATH}</b><b aria-hidden=true>x2</b></i> <b aria-hidden=true>One</b>", "x^2 One"),
    ("<a-b><template shadowrootmode=open><p>One hour.</template>a</a-b>", "One hour.\n\na"),
]


@pytest.mark.parametrize(("page", "text"), USUAL)
def test_frames_and_what_is_in_them(page: str, text: str) -> None:
    found = html_pages.read(f"<!doctype html><body>{page}".encode())
    assert (found.title, found.text) == ("", text)


TAGS = st.sampled_from(
    ["div", "p", "main", "article", "section", "header", "footer", "aside", "nav", "noscript"]
)
NAMES = st.sampled_from(["", "sidebar", "related", "footer", "noprint", "story"])
BLOCKS = st.lists(st.tuples(TAGS, NAMES, st.integers(1, 30), st.booleans()), min_size=1)


def page_of(blocks: list[tuple[str, str, int, bool]]) -> tuple[str, list[str]]:
    """A page of these blocks, some of which are left open, and its words, which are unique."""
    words = [f"word{number:04}" for number in range(sum(length for _, _, length, _ in blocks))]
    pieces, done = list[str](), 0
    for tag, name, length, is_closed in blocks:
        text = " ".join(words[done : done + length])
        pieces.append(f"<{tag} class='{name}'><div>{text}</div>{f'</{tag}>' if is_closed else ''}")
        done += length
    return "".join(pieces), words


@given(BLOCKS)
def test_no_page_loses_most_of_its_text(blocks: list[tuple[str, str, int, bool]]) -> None:
    page, words = page_of(blocks)
    found = re.findall(r"word\d+", html_pages.read(page.encode()).text)
    assert found == [word for word in words if word in {*found}]
    assert 2 * len(found) >= len(words)


@given(BLOCKS)
def test_notes_and_messages_have_no_frame(blocks: list[tuple[str, str, int, bool]]) -> None:
    page, words = page_of(blocks)
    assert re.findall(r"word\d+", html_pages.text_of(page)) == words
    assert re.findall(r"word\d+", markdown.read(f"<div hidden>\n{page}\n").text) == words


def test_empty_elements_of_xhtml_end_in_html() -> None:
    page = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Tea</title>'
        "<script src='a.js'/></head><body><nav/><p>One<br/>hour <![CDATA[1 < 2]]></p><p>unclosed"
    )
    for kind in ("html", "xml"):
        found = readers.read("a.xhtml", kind, f"<?xml version='1.0'?>{page}".encode())
        assert (found.title, found.text) == ("Tea", "One\nhour 1 < 2\n\nunclosed")
