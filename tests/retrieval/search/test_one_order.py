"""One order: every search that finds two documents ranks them in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit
from slimdex.retrieval.search.request import SearchRequest
from tests.chance import CHANCE
from tests.encoders import WordEncoder

COUNT = 600
QUERIES = ["w1 w2 w3", "w9", "w40 w2 w77", "w300", "doc-7", "w5 w5 doc-8", "", "nothing of it"]
fusions = pytest.mark.parametrize("hybrid", ["auto", "off", 0.3, "rrf"])
wheres = st.one_of(
    st.none(),
    st.tuples(st.integers(2, 40), st.integers(0, 39)).map(lambda d: f"n % {d[0]} = {d[1] % d[0]}"),
    st.integers(0, COUNT).map(lambda least: f"n >= {least}"),
)


def texts() -> list[str]:
    """Some words are in nearly all documents and some in one; every tenth text occurs twice."""
    rng = np.random.default_rng(3)
    drawn = [rng.zipf(1.2, rng.integers(3, 14)).clip(max=900) for _ in range(COUNT)]
    actual = [" ".join(f"w{word}" for word in words) for words in drawn]
    actual[10::10] = actual[: COUNT - 10 : 10]
    return actual


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """Of `pq` codes of half the dimensions, whose order is not that of the vectors."""
    path = tmp_path_factory.mktemp("order") / "x.index"
    with Collection.create(path, WordEncoder(), Settings(k=24, kind="pq", candidates=60)) as made:
        made.add(Document(f"doc-{i}", text, "", {"n": i}) for i, text in enumerate(texts()))
        made.delete([f"doc-{i}" for i in range(0, COUNT, 17)])
        yield made


@pytest.fixture(scope="module")
def every(collection: Collection) -> Callable[[str, str | float], list[Hit]]:
    """All hits of a query, compared in full and in order."""
    return cache(
        lambda query, hybrid: collection.search(query, COUNT, candidates=COUNT, hybrid=hybrid)
    )


@fusions
@given(
    st.lists(st.sampled_from(QUERIES), min_size=1, max_size=4),
    wheres,
    st.integers(1, 80),
    st.none() | st.integers(1, 300),
)
@settings(max_examples=CHANCE.examples(25))
def test_the_order_does_not_depend_on_filter_limit_batch_or_candidates(
    collection: Collection,
    every: Callable[[str, str | float], list[Hit]],
    hybrid: str | float,
    batch: list[str],
    where: str | None,
    limit: int,
    candidates: int | None,
) -> None:
    places = {hit.id: (i, hit.score) for i, hit in enumerate(every(batch[0], hybrid))}
    request = SearchRequest(
        texts=batch, limit=limit, where=where, candidates=candidates, hybrid=hybrid
    )
    hits = collection.answer(request)[0]
    actual = [places[hit.id] for hit in hits]
    assert actual == sorted(actual)
    assert [score for _, score in actual] == [hit.score for hit in hits]
    assert hits == sorted(hits, key=lambda hit: -hit.score)


@fusions
def test_the_best_allowed_hit_is_first_with_a_filter(
    collection: Collection,
    every: Callable[[str, str | float], list[Hit]],
    hybrid: str | float,
) -> None:
    for query in QUERIES:
        for rest in range(7):
            allowed = [hit.id for hit in every(query, hybrid) if int(hit.id[4:]) % 7 == rest]
            hits = collection.search(query, 20, f"n % 7 = {rest}", hybrid=hybrid)
            assert [hit.id for hit in hits] == allowed[:20]
