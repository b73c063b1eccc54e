"""`slimdex bench lists`: inverted lists of several kinds, and codes without lists.

All indexes are built from the same vectors and rescore in the default metric. Then they take turns
at the queries on one thread, and the encoder runs between two searches, as for a user. The
reference is exact search in the same metric.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import IVF_PQ, PQ, Kind, ivf_lists
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.options import usual_candidates
from slimdex.indexes.ranking import agreement
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex, trained
from slimdex.indexes.search.rescoring import Metric, Rescorer
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.encoders.base import Encoder, encode_queries
from slimdex.retrieval.quality.evaluation.measures import latency
from slimdex.retrieval.trials.query_pools import ASKED, encoded
from slimdex.retrieval.trials.recall_trials import NEAREST, Pool, exact_nearest

from ..data.paired_measures import AGREEMENT, interval
from ..machine import limit_threads
from ..rows import ResultsFile, Row, key_of

TIMED = 240
ROUNDS, WARM_UP = 4, 3
SHARES = (0.15, 0.25, 0.4, 0.5, 0.75)
"""Shares of the lists to scan, in addition to the index's own number."""
NOISE = np.float32(0.5)
"""Length of the noise in a copy, as a share of the vector's own: a cosine of .89."""
CANDIDATES = (200, 400, 700, 1000, 1500)
"""Numbers of candidates, in addition to the index's own."""


def _more_lists(times: int) -> Kind:
    return replace(IVF_PQ, factory=lambda k, n: f"IVF{times * ivf_lists(n)},PQ{k // 4}x4fs")


KINDS = {
    "pq": PQ,
    "ivf-pq": IVF_PQ,
    "4-times-the-lists": _more_lists(4),
    "16-times-the-lists": _more_lists(16),
    "residual": replace(IVF_PQ, factory=lambda k, n: IVF_PQ.factory(k, n) + "r"),
    "inner-products": replace(IVF_PQ, by_distance=False),
}
"""Name -> kind of index: codes without lists, lists as they are, and lists with one change."""


@dataclass(frozen=True)
class Asked:
    """Queries, the sets they are from, and their encoder."""

    sets: Sequence[str]
    texts: Sequence[str]
    encoder: Encoder

    @cached_property
    def vectors(self) -> Matrix:
        """Encoded queries (q, d)."""
        return encoded(self.encoder, self.texts)


@dataclass
class _Setting:
    """An index at a number of lists and of candidates."""

    index: ReducedIndex
    candidates: int
    probed: int
    row: Row

    def prepare(self) -> None:
        codes = self.index.index
        if self.probed and isinstance(codes, FaissIndex):
            codes.set_parameters(f"nprobe={self.probed}")

    def search(self, queries: Matrix) -> Rows:
        return self.index.search(queries, NEAREST, candidates=self.candidates)[1]


def measure_lists(
    vectors: VectorFile,
    asked: Asked,
    names: Sequence[str],
    results: ResultsFile,
    facts: Row,
    *,
    documents: int,
    folder: Path,
) -> None:
    """Replace the rows of this number of documents and these sets' queries.

    Parameters
    ----------
    vectors : of all documents.
    names : in `KINDS`.
    facts : columns of every row.
    documents : number of them to index: a random sample, all, or all and noisy copies of them.
    folder : on a disk, for the vectors that are rescored; empty again afterwards.
    """
    with TemporaryDirectory(dir=folder) as made:
        file = _sampled(vectors, documents, Path(made))
        moments = Moments.of(file.scan(), file.dim)
        metric = _metric(file, moments, Path(made))
        pool = Pool.asked(ASKED, asked.vectors)
        exact = exact_nearest(file, metric.rescorer, pool, np.arange(documents))
        about = facts | {"documents": documents, "queries_of": ", ".join(asked.sets)}
        settings = list[_Setting]()
        for done, name in enumerate(names, start=1):
            index, columns = _built(KINDS[name], moments, metric)
            settings += _settings(index, about | {"method": name} | columns)
            progress("building", done, len(names))
        _agree(settings, asked, exact)
        _time(settings, asked)
    same = ("documents", "queries_of")
    others = [
        row for row in results.rows.values() if any(row[name] != about[name] for name in same)
    ]
    results.replace([*others, *(setting.row for setting in settings)])


def _sampled(vectors: VectorFile, documents: int, folder: Path) -> VectorFile:
    """Write the vectors of some documents as float16, then noisy copies if there are too few."""
    chance, rows = np.random.default_rng(0), np.arange(len(vectors))
    if documents < len(rows):
        rows = np.sort(chance.choice(rows, documents, replace=False))
    file = VectorFile(folder / "vectors.f16", vectors.dim, 0, np.float16)
    for part in batches(documents):
        X = vectors.take(rows[np.arange(part.start, part.stop) % len(rows)])
        if part.stop > len(rows):
            noise = normalize_rows(chance.standard_normal(X.shape, dtype=np.float32))
            copies = np.arange(part.start, part.stop)[:, None] >= len(rows)
            X += NOISE * np.linalg.norm(X, axis=1, keepdims=True) * noise * copies
        file.append(X)
    return file


def _metric(file: VectorFile, moments: Moments, folder: Path) -> Metric:
    """Fit the default metric, and write the vectors' norms."""
    usual = Settings()
    rescorer = Rescorer.fit(moments, usual.beta, usual.gamma)
    norms = VectorFile(folder / "norms.f32", 1, 0, np.float32)
    for chunk in file.scan():
        norms.append(rescorer.norms(chunk))
    return Metric(rescorer, file, norms)


def _built(kind: Kind, moments: Moments, metric: Metric) -> tuple[ReducedIndex, Row]:
    """Fit, train and code; returns the index and its columns."""
    limit_threads(None)
    file = metric.vectors
    start = perf_counter()
    k = kind.dimensions(file.dim)
    reducer = Settings(k=k).fit_reducer(file, moments)
    fitted = perf_counter()
    index = ReducedIndex(reducer, trained(kind, reducer, file), file, metric=metric)
    index.extend()
    coded = perf_counter()
    return index, {
        "kind": kind.factory(k, len(file)),
        "k": k,
        "lists": index.index.probes[1] if index.index.probes else 0,
        "ram_bytes": index.nbytes,
        "fit_s": fitted - start,
        "index_s": coded - fitted,
        "build_s": coded - start,
    }


def _settings(index: ReducedIndex, columns: Row) -> list[_Setting]:
    """An index at each share of its lists and each number of candidates."""
    own, lists = index.index.probes or (0, 0)
    found = []
    for probed in sorted({own, *(max(round(share * lists), 1) for share in SHARES if lists)}):
        for count in sorted({*CANDIDATES, usual_candidates(len(index))}):
            known = columns | {"lists_probed": probed, "candidates": count}
            facts = {name: value for name, value in known.items() if not name.endswith("_s")}
            found.append(_Setting(index, count, probed, {"key": key_of(facts)} | known))
    return found


def _agree(settings: Sequence[_Setting], asked: Asked, exact: Rows) -> None:
    """Share of the exact ten that each setting finds, with its interval, by all queries."""
    for done, setting in enumerate(settings, start=1):
        setting.prepare()
        shares = agreement(setting.search(asked.vectors), exact, NEAREST)
        low, high = interval(shares[None])
        setting.row |= {
            AGREEMENT: float(shares.mean()),
            f"{AGREEMENT}_low": float(low[0]),
            f"{AGREEMENT}_high": float(high[0]),
        }
        progress("answers", done, len(settings))


def _time(settings: Sequence[_Setting], asked: Asked) -> None:
    """Seconds from a vector to rows on one thread, the settings in turns."""
    limit_threads(1)
    seconds: dict[int, list[float]] = defaultdict(list)
    few = min(TIMED, len(asked.texts))
    for turn, chosen in enumerate(np.array_split(np.arange(few), ROUNDS)):
        for done, setting in enumerate(settings, start=1):
            setting.prepare()
            for i in chosen[:WARM_UP]:
                setting.search(asked.vectors[i][None])
            seconds[done] += [_seconds(setting.search, asked, i) for i in chosen]
            progress("one thread", turn * len(settings) + done, ROUNDS * len(settings))
    limit_threads(None)
    for done, setting in enumerate(settings, start=1):
        setting.row |= latency(seconds[done])


def _seconds(search: Callable[[Matrix], object], asked: Asked, i: int) -> float:
    """Seconds of a search, after the encoder has run."""
    encode_queries(asked.encoder, [asked.texts[i]])
    start = perf_counter()
    search(asked.vectors[i][None])
    return perf_counter() - start
