"""Ranking in an index of source code: which file comes first, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.lexical.code_files import is_test_path
from slimdex.retrieval.quality.hybrid_choice import FUSIONS, fusion_orders
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder, WordEncoder

EXACT = Settings(kind="flat", reducer="identity", gamma=0.0, beta=0.0)
FILLER = ["sort", "heap", "node", "left", "right", "swap", "merge", "index", "count", "value"]


def file(path: str, text: str, *definitions: str) -> Document:
    """A file that defines names, each in the line that begins with it."""
    starts = [f"\n{text}".index(f"\n{name.rpartition('.')[2]}") for name in definitions]
    parts = [Part(start, (name,)) for start, name in zip(starts, definitions, strict=True)]
    return Document(path, text, parts=parts)


def collection_of(path: Path, documents: Sequence[Document]) -> Collection:
    """An index of these documents among others of code."""
    made = Collection.create(path / "x.index", WordEncoder(), EXACT)
    others = [Document(f"lib/other{i}.go", " ".join(FILLER[i:] + FILLER[:i])) for i in range(10)]
    made.add([*documents, *others])
    return made


def first_ids(made: Collection, query: str, limit: int = 2) -> list[str]:
    return [hit.id for hit in made.search(query, limit)]


@pytest.mark.parametrize(
    "path",
    [
        "tests/web.py", "src/test/java/a/B.java", "web_test.go", "test_web.py", "WebTest.java",
        "web.spec.ts", "web_spec.rb", "conftest.py", "_examples/rest/main.go", "App.Tests/Web.cs",
        "benches/web.rs", "__tests__/web.js", "internal/testdata/a.go", "test-shrinker/a.java",
    ],
)  # fmt: skip
def test_tests_and_examples_are_recognised(path: str) -> None:
    assert is_test_path(path)


@pytest.mark.parametrize(
    "path",
    ["web.py", "latest/web.go", "attest.rs", "http/spec.go", "audio/sample_rate.py", "contest.c"],
)
def test_other_files_are_no_tests(path: str) -> None:
    assert not is_test_path(path)


def test_a_test_comes_after_what_it_tests_unless_asked_for(tmp_path: Path) -> None:
    code = Document("router.go", "match a route in a tree of other nodes and more of them")
    test = Document("router_test.go", "match a route in a tree")
    with collection_of(tmp_path, [code, test]) as made:
        assert first_ids(made, "match a route in a tree") == ["router.go", "router_test.go"]
        assert first_ids(made, "test that we match a route in a tree")[0] == "router_test.go"


def test_a_text_comes_after_the_code_unless_asked_for(tmp_path: Path) -> None:
    code = Document("server.go", "recover from a panic in any handler of these and those")
    text = Document("README.md", "recover from a panic")
    with collection_of(tmp_path, [code, text]) as made:
        assert first_ids(made, "recover from a panic") == ["server.go", "README.md"]
        assert first_ids(made, "readme: recover from a panic")[0] == "README.md"
        assert first_ids(made, "how to install and recover from a panic")[0] == "README.md"


@pytest.mark.parametrize(
    "query", ["parse", "parse()", "where is parse defined", "`parse`?", "Reader.parse"]
)
def test_the_definition_of_a_name_comes_first_at_its_line(tmp_path: Path, query: str) -> None:
    long = "intro\n" + "".join(f"filler{i} of this file here\n" for i in range(12))
    documents = [
        Document("calls.go", "parse parse parse parse"),
        file("parse_test.go", "parse parse parse", "parse"),
        file("reader.go", f"{long}parse = read\nand more", "Reader.parse"),
        *(Document(f"lib/other{i}.go", " ".join(FILLER[i:] + FILLER[:i])) for i in range(10)),
    ]
    with Collection.create(tmp_path / "x", ReadingEncoder(), EXACT) as made:
        made.add(documents)
        hit = made.search(query, 1)[0]
        assert (hit.id, "parse = read" in hit.text) == ("reader.go", True)


def test_a_hit_has_the_line_and_headings_of_the_definition_asked_for(tmp_path: Path) -> None:
    text = "package a\n\nfirst = one\n\nsecond = two\nsecond and more"
    with collection_of(tmp_path, [file("small.go", text, "first", "Tree.second")]) as made:
        for query, line, headings in (
            ("first", 3, ("first",)),
            ("how is `second` called", 5, ("Tree.second",)),
            ("one and more", 1, ()),
        ):
            hit = made.search(query, 1)[0]
            assert (hit.id, hit.line, tuple(hit.headings)) == ("small.go", line, headings)
            assert (hit.start, hit.text) == (0, text)


@pytest.mark.parametrize(
    ("path", "text", "name", "line"),
    [
        ("a.ts", "import x\n\nexport const maxAge: number = 90;\n", "maxAge", 3),
        ("a.py", "import x\nMAX_AGE: Final = 90\n", "MAX_AGE", 2),
        ("a.go", "package a\n\nconst (\n\t// Days.\n\tmaxAge int = 90\n)\n", "maxAge", 5),
        ("a.go", "package a\n\nvar ErrAge = err(90)\n", "ErrAge", 3),
        ("a.c", "#include <x>\n#define  MAX_AGE 90\n", "MAX_AGE", 2),
        ("a.rs", "use x;\npub(crate) const MAX_AGE: u32 = 90;\n", "MAX_AGE", 2),
        ("a.rb", "module A\nend\nMAXAGE = 90\n", "MAXAGE", 3),
    ],
)
def test_an_outermost_constant_is_a_definition(
    tmp_path: Path, path: str, text: str, name: str, line: int
) -> None:
    uses = Document(f"uses{path}", f"  {name} {name} {name}\nif {name} == {name}")
    inner = Document(f"inner{path}", f"func\n  const {name} = {name}\n{name} == {name}")
    with collection_of(tmp_path, [uses, inner, Document(path, text)]) as made:
        hit = made.search(name, 1)[0]
        assert (hit.id, hit.line) == (path, line)


def test_a_name_of_the_same_letters_and_qualifiers_comes_first(tmp_path: Path) -> None:
    documents = [
        file("a.go", "route = one", "Mux.route"),
        file("b.go", "Route = two", "Mux.Route"),
        file("c.go", "Route = three", "Tree.Route"),
    ]
    with collection_of(tmp_path, documents) as made:
        assert first_ids(made, "Mux.Route", 1) == ["b.go"]
        assert first_ids(made, "Tree.Route", 1) == ["c.go"]
        assert first_ids(made, "route", 1) == ["a.go"]


def test_a_file_named_as_the_question_comes_first(tmp_path: Path) -> None:
    text = "write the entries of this program to a stream of some kind"
    mentions = Document("a/stream.go", "write the entries of the logger for a request")
    named = Document("a/requestLogger.go", "write the entries of the request in some line")
    with collection_of(tmp_path, [mentions, named, Document("a/sink.go", text)]) as made:
        query = "write the entries of the request logger"
        assert first_ids(made, query) == ["a/requestLogger.go", "a/stream.go"]


def test_a_file_comes_first_by_its_name_alone(tmp_path: Path) -> None:
    lines = [f"sort line{i} of the heap and left and right nodes of stream" for i in range(4)]
    documents = [Document("a/stream.go", "\n\n".join(lines)), Document("b.go", "stream.go, go")]
    others = [Document(f"lib/other{i}.go", " ".join(FILLER[i:] + FILLER[:i])) for i in range(10)]
    with Collection.create(tmp_path / "x", ReadingEncoder(), EXACT) as made:
        made.add([*documents, *others])
        hits = made.search("stream.go", 2)
        assert [(hit.id, hit.found_by) for hit in hits] == [
            ("a/stream.go", "name"),
            ("b.go", "both"),
        ]


def test_a_file_with_several_good_passages_comes_first(tmp_path: Path) -> None:
    good, close = "compress a response body with gzip", "compress a response body with gzip level"
    rest = "\n\nsort heap node left right swap merge index count value depth\n\n"
    documents = [
        Document("one.go", good + rest * 3),
        Document("many.go", rest.join([close, close, close])),
        *(Document(f"lib/other{i}.go", " ".join(FILLER[i:] + FILLER[:i])) for i in range(10)),
    ]
    with Collection.create(tmp_path / "x", ReadingEncoder(), EXACT) as made:
        made.add(documents)
        query = "compress a response body with gzip"
        assert made.search(query, 1, group_by="passage", hybrid="off")[0].id == "one.go"
        assert first_ids(made, query) == ["many.go", "one.go"]


@pytest.mark.parametrize(("texts", "is_ranked"), [(10, True), (30, False)])
def test_an_index_with_less_code_than_texts_is_in_the_order_of_the_fusion(
    tmp_path: Path, texts: int, is_ranked: bool
) -> None:
    rng = np.random.default_rng(5)
    drawn = [" ".join(f"w{n}" for n in rng.zipf(1.3, 9).clip(max=60)) for _ in range(20 + texts)]
    ids = [f"src/w{i}_test.go" if i < 20 else f"notes/w{i}.md" for i in range(len(drawn))]
    with Collection.create(tmp_path / "x", WordEncoder(), EXACT) as made:
        made.add(map(Document, ids, drawn))
        snapshot, rule = made.index.snapshot, [str(each) for each in FUSIONS].index("auto")
        differing = 0
        for query in ("w1 w2 w3", "w4", "w7 w2"):
            vector = encode_queries(WordEncoder(), [query])
            fused = fusion_orders(snapshot, vector, query)[2][rule]
            expected = [ids[row] for row in fused.tolist()][:10]
            differing += first_ids(made, query, 10) != expected
        assert (differing > 0) == is_ranked


WORDS = [f"w{i}" for i in range(40)]
wheres = st.none() | st.integers(2, 30).flatmap(
    lambda m: st.integers(0, m - 1).map(lambda r: f"n % {m} = {r}")
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """Files of several passages each, tests and texts among them, found by codes first."""
    rng, path = np.random.default_rng(11), tmp_path_factory.mktemp("code") / "x.index"
    kinds = ["src/{}.go", "src/{}_test.go", "docs/{}.md", "lib/{}.py", "examples/{}.py"]
    documents = []
    for i in range(120):
        lines = [" ".join(rng.choice(WORDS, 8)) for _ in range(int(rng.integers(1, 9)))]
        text, name = "\n\n".join(lines), f"{WORDS[i % 40]}Name{i % 7}"
        parts = [Part(0, (name,)), Part(text.rfind("\n") + 1, (f"{name}.w{i % 40}",))]
        documents.append(Document(kinds[i % 5].format(f"{i}_{name}"), text, "", {"n": i}, parts))
    made = Collection.create(path, ReadingEncoder(), Settings(k=24, kind="pq", candidates=60))
    with made:
        made.add(documents)
        yield made


@given(
    st.sampled_from(["w1 w2 w3", "w9", "w3Name3", "test w5", "docs of w7 and w8", "w4 w4 w2Name2"]),
    st.sampled_from(["auto", 0.3, "rrf"]),
    wheres,
    st.integers(1, 60),
)
@settings(max_examples=CHANCE.examples(30))
def test_the_order_depends_on_neither_filter_nor_limit(
    repository: Collection, query: str, hybrid: str | float, where: str | None, limit: int
) -> None:
    whole = repository.search(query, 1000, candidates=1000, hybrid=hybrid, group_by="passage")
    places = {(hit.id, hit.start): i for i, hit in enumerate(whole)}
    hits = repository.search(query, limit, where, hybrid=hybrid, group_by="passage")
    found = [places[hit.id, hit.start] for hit in hits]
    assert found == sorted(found)
