"""Migration: measure what another encoder would give an index, and change to it by a map.

Both encoders encode a sample of the documents. Queries, with labels or made of other documents,
search the sample by each option: by the old encoder; by the new one, mapped into the old space; and
by the new one in its own space. Every option searches the same documents, so the differences count,
while the values themselves are higher than those of the whole index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.errors import InputError, SlimdexError
from slimdex.indexes.execution.progress import note, progress
from slimdex.indexes.maps.affine_map import AffineMap
from slimdex.indexes.maps.fitting import FEWEST, fit_map
from slimdex.indexes.ranking import top_k
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.rescoring import Probes, Rescorer

from ..encoders.base import Encoder
from ..ingest.encoding import encoded_steps
from ..ingest.migration.mapping import check_unmapped, map_encoder
from ..storage.snapshot import Snapshot
from ..trials.query_pools import dropped, encoded, row_texts
from ..trials.recall_trials import ERROR
from .tuning.hybrid_choice import Judged
from .tuning.metric_choice import ndcg
from .tuning.tuner import Asked, labelled_queries

if TYPE_CHECKING:
    from ..collection import Collection

STAY, MAP, ENCODE = "stay", "map", "encode again"
SECONDS_AN_HOUR = 3600
QUERIES = 500
"""Largest number of queries."""
MOST, LEAST, SHARE = 10_000, 2_000, 0.05
"""Default sample: 5% of the documents, but between these."""
DEEP = 100
"""Rows that are read to find ten documents of several passages."""
WINDOW = 256
MADE, LABELLED = "half of the words of a sentence, its document to find", "queries with labels"

Values = NDArray[np.float64]
"""nDCG@10 of each query (q,)."""


@dataclass(frozen=True)
class Option:
    """One option and its quality.

    Attributes
    ----------
    name : `STAY`, `MAP` or `ENCODE`.
    estimate : mean nDCG@10 of the queries, 0 to 1.
    bound : lower bound of the mean over all such queries, wrong with probability 5%.
    gain : difference of the means from staying; None for that, and without the old encoder.
    gain_bound : its lower bound.
    hours : estimated time of encoding.
    """

    name: str
    estimate: float
    bound: float
    gain: float | None
    gain_bound: float | None
    hours: float


@dataclass(frozen=True)
class Migration:
    """Result of `Collection.migrate`.

    Attributes
    ----------
    options : measured, first to stay, if the old encoder can be loaded.
    advice : name of the recommended option.
    why : the reason for it.
    map : the method of the chosen map.
    sample : documents or passages that the map was fitted on.
    searched : those that the queries searched, encoded by both.
    pool : description of the queries.
    queries : their number.
    applied : True if the map is in use now.
    """

    options: Sequence[Option]
    advice: str
    why: str
    map: str
    sample: int
    searched: int
    pool: str
    queries: int
    applied: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self) | {"error": ERROR}


def migrate(
    collection: Collection,
    encoder: Encoder,
    asked: Asked | None = None,
    *,
    sample: int | None = None,
    apply: bool = False,
) -> Migration:
    """Compare another encoder with the index's own; see `Collection.migrate`."""
    check_unmapped(collection)
    measured, made = collection.read(
        lambda snapshot: _measured(collection, snapshot, encoder, asked, sample)
    )
    if apply:
        map_encoder(collection, encoder, made)
    return replace(measured, applied=apply)


def _measured(
    collection: Collection,
    snapshot: Snapshot,
    encoder: Encoder,
    asked: Asked | None,
    count: int | None,
) -> tuple[Migration, AffineMap]:
    """Measure all options on a snapshot."""
    sample = Sample.drawn(collection, snapshot, asked, count)
    texts = [query.text for query in sample.queries]
    new, seconds = sample.encoded(collection, snapshot, encoder)
    old = snapshot.index.vectors.take(sample.searched)
    fitted = np.searchsorted(sample.searched, sample.fitted)
    made = fit_map(new[fitted], old[fitted])
    moments, queries = collection.commit_log.moments(), encoded(encoder, texts)
    mapped = sample.judged(snapshot, made(queries), old, moments)
    again = sample.judged(snapshot, queries, new, Moments.of_rows(new))
    stay = None
    if (present := _own_encoder(collection)) is not None:
        stay = sample.judged(snapshot, encoded(present, texts), old, moments)
    hours = seconds * len(snapshot.searchable_rows()) / SECONDS_AN_HOUR
    options = [_option(MAP, mapped, stay), _option(ENCODE, again, stay, hours)]
    if stay is not None:
        options = [_option(STAY, stay, None), *options]
    advice, why = advised(stay, mapped, again)
    counts = len(sample.fitted), len(sample.searched)
    return Migration(options, advice, why, made.name, *counts, sample.pool, len(texts)), made


def _own_encoder(collection: Collection) -> Encoder | None:
    """The index's own encoder; None, with a note, if it can't be loaded."""
    try:
        return collection.query_encoder
    except (SlimdexError, KeyError) as error:
        note(f"the index's own encoder can't be loaded, so that staying is not measured: {error}")
        return None


def _option(name: str, values: Values, staying: Values | None, hours: float = 0.0) -> Option:
    gain = gain_bound = None
    if staying is not None:
        gain = float((values - staying).mean())
        gain_bound = gain_of(values, staying)
    return Option(name, float(values.mean()), betting_bound(values, ERROR), gain, gain_bound, hours)


def gain_of(values: Values, others: Values) -> float:
    """Lower bound of the mean difference of paired values between 0 and 1.

    >>> one = np.ones(1000)
    >>> gain_of(one, 0 * one) > 0.98, gain_of(one, one) <= 0
    (True, True)
    """
    return 2 * betting_bound((1 + values - others) / 2, ERROR) - 1


def advised(stay: Values | None, mapped: Values, again: Values) -> tuple[str, str]:
    """The option to recommend, and the reason.

    >>> good, bad = np.full(500, 0.9), np.full(500, 0.1)
    >>> advised(bad, bad, good)[0], advised(good, bad, good)[0], advised(None, good, good)[0]
    ('encode again', 'stay', 'map')
    """
    if stay is None:
        if (gain := gain_of(again, mapped)) > 0:
            return ENCODE, f"gains at least {100 * gain:.1f} nDCG@10 over the map"
        return MAP, "the old encoder can't be loaded, and encoding again shows no proved gain"
    gain, mapped_gain = gain_of(again, stay), gain_of(mapped, stay)
    if gain > 0 and gain >= mapped_gain:
        return ENCODE, f"gains at least {100 * gain:.1f} nDCG@10 over staying"
    if mapped_gain > 0:
        return MAP, f"gains at least {100 * mapped_gain:.1f} nDCG@10 over staying"
    return STAY, "neither the map nor encoding again shows a proved gain"


@dataclass(frozen=True)
class Sample:
    """Rows that both encoders encode, and queries.

    Attributes
    ----------
    fitted : rows to fit the map on; none is of a document that a query asks for.
    searched : all rows that both encoders encode, in order.
    pool : description of the queries.
    """

    fitted: Rows
    searched: Rows
    queries: Sequence[Judged]
    pool: str

    @classmethod
    def drawn(
        cls, collection: Collection, snapshot: Snapshot, asked: Asked | None, count: int | None
    ) -> Sample:
        """Draw `count` rows to fit on, by default 5%, and queries from the rest of the rows.

        Raises `InputError` if there are too few documents, or none has a label.
        """
        rng, live = np.random.default_rng(0), snapshot.searchable_rows()
        size = _size(len(live)) if count is None else count
        if size < FEWEST or len(live) <= FEWEST:
            raise InputError(
                f"a sample of {min(size, len(live)):,} of {len(live):,} {snapshot.noun}; expected "
                f"at least {FEWEST}, and others to search for"
            )
        if asked is not None and asked.labels:
            pool, queries = LABELLED, labelled_queries(collection, snapshot, asked)
            if not queries:
                raise InputError("no query has a label of a document; expected some")
            order = rng.permutation(len(queries))[:QUERIES]
            queries = [queries[i] for i in order.tolist()]
        else:
            pool, queries = MADE, _made_queries(collection, snapshot, live, rng)
        wanted = np.unique([row for query in queries for row in query.labels])
        wanted = np.intersect1d(snapshot.document_rows.all_rows(wanted), live)
        others = np.setdiff1d(live, wanted)
        fitted = np.sort(rng.choice(others, min(size, len(others)), replace=False))
        if len(fitted) < FEWEST:
            raise InputError(
                f"{len(others)} {snapshot.noun} that no query asks for; expected {FEWEST} or more"
            )
        return cls(fitted, np.union1d(fitted, wanted), queries, pool)

    def encoded(
        self, collection: Collection, snapshot: Snapshot, encoder: Encoder
    ) -> tuple[Matrix, float]:
        """Encode the searched rows; returns vectors in their order, and seconds for each."""
        out: Matrix = np.zeros((len(self.searched), encoder.dim), dtype=np.float32)
        texts = row_texts(snapshot, collection.store, self.searched)
        start, done = perf_counter(), 0
        for low in range(0, len(texts), WINDOW):
            part = texts[low : low + WINDOW]
            for positions, vectors, _ in encoded_steps(encoder, part, encoder.dim):
                out[[low + i for i in positions]] = vectors
                done += len(positions)
                progress("encoding a sample", done, len(texts))
        return out, (perf_counter() - start) / len(texts)

    def judged(
        self, snapshot: Snapshot, queries: Matrix, documents: Matrix, moments: Moments
    ) -> Values:
        """nDCG@10 of encoded queries among the searched rows' vectors, in the index's metric.

        `moments` are those of the space.
        """
        settings = snapshot.state.settings
        assert settings is not None
        rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
        probes, norms = rescorer.probes(queries), rescorer.norms(documents)
        firsts = snapshot.document_rows.documents(self.searched)
        out = np.empty(len(queries))
        for i, query in enumerate(self.queries):
            shift = None if probes.shifts is None else probes.shifts[i : i + 1]
            scores = Probes(probes.vectors[i : i + 1], shift).scores(documents, norms)
            rows = top_k(scores, firsts, DEEP)[1][0].tolist()
            ranked = [first for first in dict.fromkeys(rows) if first != query.own]
            out[i] = ndcg(ranked, query.labels)
        return out


def _size(count: int) -> int:
    """Rows of the default sample.

    >>> _size(1_000_000), _size(100_000), _size(3000)
    (10000, 5000, 2000)
    """
    return min(MOST, max(LEAST, round(SHARE * count)))


def _made_queries(
    collection: Collection, snapshot: Snapshot, live: Rows, rng: np.random.Generator
) -> list[Judged]:
    """Queries made of rows, drawn with replacement, so that they are independent.

    At most half of the rows are asked for: the others are to fit the map on.
    """
    candidates = rng.choice(live, len(live) // 2, replace=False)
    rows = rng.choice(candidates, QUERIES)
    texts = row_texts(snapshot, collection.store, rows)
    documents = snapshot.document_rows.documents(rows).tolist()
    pairs = zip(texts, documents, strict=True)
    return [Judged(dropped(text, rng), {document: 1}) for text, document in pairs if text.strip()]
