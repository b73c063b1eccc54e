"""Cutting: passages cover the text, fit, overlap as stated, and begin where its structure does."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.documents import Part
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.passages import (
    SHARE,
    Passage,
    headings_of,
    part_at,
)
from slimdex.retrieval.sources.files.formats import source_code
from tests.cutting import cut

TITLES = st.sampled_from(["", "On cats", "a very long title that goes on and on and on for ever"])
BITS = [
    *["the", "cat", "sat", "rained.", "why?", "no!", "(so.)", "a_b.c", "x" * 90],
    *["\n", "\n\n", " ", "  \n \n", "\t", "\u3000"],
    *["e\u0301e\u0301", "été", "ﷺ", "一句話。", "沒有空格的長長的句子"],
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
]
TEXTS = st.lists(st.sampled_from(BITS), max_size=120).map(" ".join) | st.text(max_size=300)


@st.composite
def structured(draw: st.DrawFn) -> tuple[str, list[Part]]:
    text = draw(TEXTS)
    starts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    headings = st.lists(st.sampled_from(["A", "B", "Of things"]), max_size=3)
    anchors = st.sampled_from(draw(st.sampled_from([["", "x"], ["L1", "L2-L9"]])))
    return text, [Part(start, draw(headings), None, draw(anchors)) for start in starts]


def letters(texts: Sequence[str]) -> list[int]:
    """Tokens are characters, between two special ones."""
    return [2 + len(text) for text in texts]


def words(texts: Sequence[str]) -> list[int]:
    """Tokens are words and other signs, one by one, between two special ones."""
    return [2 + len(re.findall(r"\w{1,8}|[^\w\s]", text)) for text in texts]


def check(title: str, text: str, found: Sequence[Passage]) -> None:
    assert found[0].start == len(text) - len(text.lstrip()) or len(found) == 1
    for passage in found:
        own = text[passage.start : passage.end]
        assert own == own.strip() or len(found) == 1
        assert own.strip() or len(found) == 1
        assert passage.content(text) == f"{passage.context} {own}".strip()
    for one, other in pairwise(found):
        assert one.start < other.start
        assert one.end < other.end
        assert not text[one.end : max(other.start, one.end)].strip()
    assert not text[found[-1].end :].strip()


@given(title=TITLES, made=structured(), length=st.integers(16, 60))
def test_passages_cover_the_text_and_fit(
    title: str, made: tuple[str, list[Part]], length: int
) -> None:
    text, parts = made
    found = cut(title, text, parts, words, length)
    check(title, text, found)
    assert max(words([passage.content(text) for passage in found])) <= length
    if words([f"{title} {text}".strip()])[0] <= length:
        assert found == [Passage(0, len(text), title)]
    for one, other in pairwise(found):
        if other.start < one.end:  # an overlap: a sentence, inside a section
            shared = text[other.start : one.end]
            assert (words([shared])[0] - 2) * SHARE <= length
            assert not [p for p in parts if one.end > p.start > other.start and p.headings != []]


@st.composite
def written(draw: st.DrawFn) -> str:
    """Python with classes in classes, methods of any length, and statements between them."""
    counter = count(1)

    def block(depth: int) -> list[str]:
        lines = list[str]()
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(["class", "def", "def", "statement"]))
            if kind == "statement" or depth == 3:
                lines += [f"a{next(counter)} = 1"] * draw(st.integers(1, 12))
            elif kind == "class":
                inner = ["    " + line for line in block(depth + 1)]
                lines += [f"class C{next(counter)}:", *inner, ""]
            else:
                body = ["    pass"] * draw(st.integers(1, 30))
                lines += [f"def f{next(counter)}():", *body, ""]
        return lines

    return "\n".join(block(0))


@given(code=written(), length=st.integers(24, 80))
def test_no_definition_that_fits_is_cut(code: str, length: int) -> None:
    extract = source_code.read(code, ".py")
    found = cut("code", extract.text, extract.parts, words, length)
    check("code", extract.text, found)
    lines = extract.text.split("\n")
    for node in ast.walk(ast.parse(extract.text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno]).strip()
            if words([text])[0] <= length:
                (name,) = re.findall(rf"(?:class|def) {node.name}\b", text)
                holders = [p for p in found if text in extract.text[p.start : p.end]]
                assert holders, f"{name} is cut"


SHOP = """\
package shop

import "fmt"

type Till struct {
	sum, count, largest, smallest int
	name, place string
	opened, closed bool
}

func (till *Till) Add(price int) {
	till.sum += price
	till.count++
}

func (till *Till) Sum() int { return 1 }

func (till *Till) Count() int { return 2 }

func report(till *Till) {
	fmt.Println("The sum of all that was sold today is", till.Sum())
	fmt.Println("Close the shop, count the money and go home", till.Sum())
}
"""


def test_a_passage_of_code_is_a_definition_with_its_qualified_name() -> None:
    pytest.importorskip("tree_sitter")
    extract = source_code.read(SHOP, ".go")

    def named(length: int) -> list[tuple[tuple[str, ...], str]]:
        found = cut("till", extract.text, extract.parts, words, length)
        assert [p.context for p in found] == [
            " ".join(["till", *headings_of(extract.parts, p.start, p.end)]) for p in found
        ]
        return [
            (headings_of(extract.parts, p.start, p.end), SHOP[p.start : p.end].split("(")[0])
            for p in found
        ]

    till = "type Till struct {\n\tsum, count, largest, smallest int\n\tname, place string"
    till += "\n\topened, closed bool\n}\n\nfunc "
    assert named(100) == [
        ((), 'package shop\n\nimport "fmt"'),
        (("Till",), till),
        (("report",), "func report"),
    ]
    assert named(60) == [
        ((), 'package shop\n\nimport "fmt"'),
        (("Till",), till.removesuffix("\n\nfunc ")),
        (("Till.Add",), "func "),
        (("Till.Sum",), "func "),
        (("Till.Count",), "func "),
        (("report",), "func report"),
    ]


def test_small_methods_are_joined_below_their_class() -> None:
    methods = "".join(f"    def get{i}(self):\n        return {i}\n\n" for i in range(12))
    long = "    def long(self):\n" + "        self.a = self.b\n" * 15
    code = f"class Box:\n{methods}{long}\n\ndef f():\n    return 1\n"
    extract = source_code.read(code, ".py")
    found = cut("", extract.text, extract.parts, words, 122)
    texts = [extract.text[p.start : p.end] for p in found]
    assert [text.count("def ") for text in texts] == [12, 1, 1]
    names = [headings_of(extract.parts, p.start, p.end) for p in found]
    assert names == [("Box",), ("Box.long",), ("f",)]


@pytest.fixture(scope="module")
def bert(tiny_bert: Path) -> TransformerEncoder:
    return TransformerEncoder(str(tiny_bert), max_length=32)


@pytest.mark.slow
@given(title=TITLES, made=structured())
def test_passages_fit_a_real_tokenizer(
    bert: TransformerEncoder, title: str, made: tuple[str, list[Part]]
) -> None:
    text, parts = made
    found = cut(title, text, parts, bert.token_counts, 32)
    check(title, text, found)
    _, lengths = bert.encode_measured([passage.content(text) for passage in found])
    assert (lengths[:, 0] == lengths[:, 1]).all()


def told(text: str, found: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(passage.context, text[passage.start : passage.end]) for passage in found]


def test_sections_come_first_with_the_headings_above_them() -> None:
    bodies = [" ".join([word] * 12) + ". " for word in ("one", "two", "three")]
    text = "".join(bodies)
    starts = [0, len(bodies[0]), len(bodies[0]) + len(bodies[1])]
    headings = [["Book", "One"], ["Book", "Two"], ["Other"]]
    parts = [Part(s, h) for s, h in zip(starts, headings, strict=True)]
    assert told(text, cut("Book", text, parts, words, 22)) == [
        ("Book One", bodies[0].strip()),
        ("Book Two", bodies[1].strip()),
        ("Book Other", bodies[2].strip()),
    ]


def test_small_sections_are_joined_below_the_same_heading_alone() -> None:
    text = "aa bb. cc dd. ee ff. " + "gg " * 30
    starts = [text.index(word) for word in ("aa", "cc", "ee", "gg")]
    headings = [["X", "a"], ["X", "c"], ["Y"], ["Y", "g"]]
    parts = [Part(s, h) for s, h in zip(starts, headings, strict=True)]
    assert told(text, cut("", text, parts, words, 40)) == [
        ("X", "aa bb. cc dd."),
        ("Y", "ee ff. " + ("gg " * 30).strip()),
    ]


def test_paragraphs_before_sentences_before_lines_before_words() -> None:
    text = "a b c d. e f g h.\n\ni j k l. m n o p. q r s t."
    assert [text[p.start : p.end] for p in cut("", text, (), words, 20)] == [
        "a b c d. e f g h.",
        "i j k l. m n o p. q r s t.",
    ]
    lines = "a b c d e f g h\ni j k l m n o p\nq r s t u v w x"
    assert [lines[p.start : p.end] for p in cut("", lines, (), words, 20)] == [
        "a b c d e f g h\ni j k l m n o p",
        "q r s t u v w x",
    ]
    assert [len(lines[p.start : p.end].split()) for p in cut("", lines, (), words, 9 + 2)] == [
        8, 8, 8,
    ]  # fmt: skip
    run = " ".join(["word"] * 30)
    assert [len(run[p.start : p.end].split()) for p in cut("", run, (), words, 16)] == [14, 14, 2]


def test_a_word_alone_is_cut_between_signs() -> None:
    text = "e\u0301" * 200
    found = cut("", text, (), letters, 50)
    assert "".join(text[p.start : p.end] for p in found) == text
    assert all(text[p.start] == "e" for p in found)
    assert max(p.end - p.start for p in found) <= 48


@pytest.mark.parametrize("sign", ["\xad", "\u200b", "\u200c", "\u2060", "\ufe0f", "\U000e0100"])
def test_no_cut_is_beside_an_invisible_sign(sign: str) -> None:
    text = f"ab{sign}" * 60 + "ab"
    pieces = [text[p.start : p.end] for p in cut("", text, (), letters, 40)]
    assert len(pieces) > 3
    assert all(piece[0] != sign and piece[-1] != sign for piece in pieces)


@pytest.mark.parametrize("end", [".", "।", "؟", "۔", "։", "።", "。"])
def test_a_passage_begins_with_the_last_sentence_of_the_one_before(end: str) -> None:
    sentences = [f"number {i} is here{end}" for i in range(9)]
    text = " ".join(sentences)
    found = [text[p.start : p.end] for p in cut("", text, (), words, 24)]
    assert found[0] == " ".join(sentences[:4])
    assert found[1] == " ".join(sentences[3:7])
    assert found[2] == " ".join(sentences[6:])


def test_text_goes_on_across_pages() -> None:
    text = "It was the best of times and it was the worst of times. " * 6
    parts = [Part(i, page=i // 50 + 1) for i in range(0, len(text), 50)]
    assert cut("", text, parts, words, 40) == cut("", text, (), words, 40)
    place = part_at(parts, 120)
    assert place is not None
    assert place.page == 3
    assert part_at(parts[1:], 10) is None
    assert headings_of(parts, 3, 200) == headings_of((), 0, 5) == ()


def test_a_context_that_takes_too_much_loses_its_outer_headings() -> None:
    text = "word " * 60
    parts = [Part(0, ["one two three four five six", "seven eight", "nine"])]
    assert {p.context for p in cut("title", text, parts, words, 18)} == {"title seven eight nine"}
    assert {p.context for p in cut("title", text, parts, words, 17)} == {"title nine"}
    assert {p.context for p in cut("a b c d e f g", text, parts, words, 17)} == {""}


def test_a_long_text_takes_time_in_proportion() -> None:
    counted = 0

    def counting(texts: Sequence[str]) -> list[int]:
        nonlocal counted
        counted += sum(map(len, texts))
        return words(texts)

    for text in ("Short. " * 20_000, "x" * 140_000, "y " * 70_000, "\n" * 140_000 + "z"):
        counted = 0
        check("", text, cut("", text, (), counting, 64))
        assert counted < 15 * len(text)
