"""Every interface returns hits in the order of their scores, so tools that sort keep it."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from haystack import Document as HaystackDocument
from haystack.components.joiners import DocumentJoiner
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

from slimdex import Collection, Hit, TransformerEncoder
from slimdex.haystack import SlimdexDocumentStore
from slimdex.langchain import SlimdexVectorStore as LangChainStore
from slimdex.llama_index import SlimdexVectorStore as LlamaStore
from slimdex.mteb import SlimdexSearch, folder_task
from tests.retrieval.cli.running import Runner
from tests.retrieval.server.asking import asking

THINGS = ["boiler", "violin", "canoe", "loom", "kiln", "tractor", "piano", "windmill"]
DONE = ["was repaired", "was sold", "needs paint", "was inspected", "was moved"]
TEXTS = {
    f"note-{5 * i + j}": f"The {thing} {done} in {1990 + i}. Invoice E{4000 + 5 * i + j}."
    for i, thing in enumerate(THINGS)
    for j, done in enumerate(DONE)
}
QUERIES = ["E4033", "who repaired the piano", "invoice E4012 of the tractor", "note-7"]
COUNT = 12
Ranking = list[tuple[str, float]]


def ranking(hits: list[Hit]) -> Ranking:
    return [(hit.id, hit.score) for hit in hits]


def make(path: Path, encoder: TransformerEncoder) -> Path:
    with Collection.create(path, encoder) as collection:
        collection.add([{"id": id, "text": text} for id, text in TEXTS.items()])
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("scores") / "notes.index", TransformerEncoder())


def by_haystack(folder: Path) -> list[Ranking]:
    store = SlimdexDocumentStore(str(folder / "haystack"))
    store.write_documents([HaystackDocument(id=id, content=text) for id, text in TEXTS.items()])
    rankings = []
    for query in QUERIES:
        joined = DocumentJoiner().run([store.search(query, top_k=COUNT)])["documents"]
        rankings.append([(document.id, document.score) for document in joined])
    return rankings


def by_langchain(folder: Path) -> list[Ranking]:
    store = LangChainStore(folder / "langchain")
    store.add_texts([*TEXTS.values()], ids=[*TEXTS])
    rankings = []
    for query in QUERIES:
        relevance = store.similarity_search_with_relevance_scores(query, COUNT)
        rankings.append([(str(document.id), 2 * score - 1) for document, score in relevance])
    return rankings


def by_llama_index(folder: Path) -> list[Ranking]:
    encoder = TransformerEncoder()
    store = LlamaStore(folder / "llama")
    nodes = [TextNode(id_=id, text=text) for id, text in TEXTS.items()]
    for node, vector in zip(nodes, encoder.encode([*TEXTS.values()]).tolist(), strict=True):
        node.embedding = vector
    store.add(nodes)
    rankings = []
    for query, vector in zip(QUERIES, encoder.encode_queries(QUERIES).tolist(), strict=True):
        asked = VectorStoreQuery(vector, similarity_top_k=COUNT, query_str=query)
        result = store.query(asked)
        rankings.append([*zip(result.ids or [], result.similarities or [], strict=True)])
    return rankings


def by_mteb(folder: Path) -> list[Ranking]:
    facts: Any = {"task_metadata": folder_task(folder).metadata, "hf_split": "", "hf_subset": ""}
    search = SlimdexSearch()
    search.index([{"id": id, "text": text} for id, text in TEXTS.items()], **facts)
    queries = Dataset.from_list([{"id": query, "text": query} for query in QUERIES])
    found = search.search(queries, top_k=COUNT, **facts)
    search.close()
    return [[*found[query].items()] for query in QUERIES]


@pytest.mark.slow
@pytest.mark.parametrize("interface", [by_haystack, by_langchain, by_llama_index, by_mteb])
def test_frameworks(made: Path, tmp_path: Path, interface: Callable[[Path], list[Ranking]]) -> None:
    with Collection.open(made) as collection:
        expected = [ranking(hits) for hits in collection.search_many(QUERIES, COUNT)]
    for actual, ours in zip(interface(tmp_path), expected, strict=True):
        assert [id for id, _ in actual] == [id for id, _ in ours]
        assert sorted(actual, key=itemgetter(1), reverse=True) == actual
        assert [score for _, score in actual] == pytest.approx([s for _, s in ours], abs=1e-4)


@pytest.mark.slow
async def test_json_and_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # In other precisions, some processors round a vector by the texts beside it.
    made = make(tmp_path / "notes.index", TransformerEncoder(precision="fp32"))
    run = Runner(capsys)
    asked = " ".join(f"--query '{query}'" for query in QUERIES)
    async with asking({"notes": made}, encoder=None) as (client, _):
        for hybrid in ("auto", "rrf", 0.5, "off"):
            options: Any = {"limit": COUNT, "hybrid": hybrid}
            with Collection.open(made) as collection:
                expected = collection.search_many(QUERIES, **options)
            body = {"queries": QUERIES, **options}
            answer = (await client.post("/indexes/notes/search", json=body)).json()
            printed = run(f"search {made} {asked} -n {COUNT} --hybrid {hybrid} --json").json
            for by_query in (printed["queries"], answer["queries"]):
                for found, hits in zip(by_query, expected, strict=True):
                    pairs = [(hit["id"], hit["score"]) for hit in found["hits"]]
                    assert pairs == [(id, pytest.approx(s, abs=2e-6)) for id, s in ranking(hits)]
                    assert pairs == sorted(pairs, key=itemgetter(1), reverse=True)
                    is_cosine = [hit["score"] == hit["similarity"] for hit in found["hits"]]
                    assert all(is_cosine) or hybrid != "off"
