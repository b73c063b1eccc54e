"""Workers: parts computed in other processes give the same bytes."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.reducers.linear import Whitening
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex, train_index
from slimdex.indexes.search.rescoring import Metric, Rescorer
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.workers import IN_THIS_PROCESS, Workers

from .through_pickle import ThroughPickle


def held(index: ReducedIndex) -> bytes:
    """The codes, byte for byte."""
    assert isinstance(index.index, FaissIndex)
    actual: bytes = faiss.serialize_index(index.index._index).tobytes()
    return actual


def reduced_index(folder: Path, X: np.ndarray, kind: str, workers: Workers) -> ReducedIndex:
    folder.mkdir()
    vectors = VectorFile(folder / "v.f16", X.shape[1])
    vectors.append(X)
    moments = Moments.of(vectors.scan(), X.shape[1])
    reducer = Whitening(16, beta=1.0, gamma=1.0).fit_moments(moments)
    rescorer = Rescorer.fit(moments, 1.0, 1.0)
    norms = VectorFile(folder / "n.f32", 1, format=FLOAT32)
    codes = train_index(kind_named(kind), reducer, vectors)
    index = ReducedIndex(reducer, codes, vectors, metric=Metric(rescorer, vectors, norms))
    index.extend(workers=workers)
    return index


@pytest.mark.parametrize("kind", ["pq", "ivf-pq", "sq8", "flat"])
def test_codes_and_norms_from_workers_equal_local_ones(
    kind: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    X = rng.standard_normal((20_000, 24), dtype=np.float32)  # three chunks, the last one short
    workers = ThroughPickle()
    here = reduced_index(tmp_path / "here", X, kind, IN_THIS_PROCESS)
    elsewhere = reduced_index(tmp_path / "elsewhere", X, kind, workers)
    assert workers.computed == 3
    assert held(elsewhere) == held(here)
    for name in ("v.f16", "n.f32"):
        assert (tmp_path / "elsewhere" / name).read_bytes() == (
            tmp_path / "here" / name
        ).read_bytes()
