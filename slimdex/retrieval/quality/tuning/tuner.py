"""Tuning: the cheapest settings that reach an agreement, proved on separate queries.

First (beta, gamma) are chosen, which define the exact search: see `metric_choice`. Then come the
smallest memory and, with it, the fewest candidates whose agreement with exact search in that metric
reaches the target. Settings are screened on a sample of the rows, built if promising, chosen by one
sample of the queries and proved on another: see `proving`. Only queries are encoded, and only
temporary files of 4 bytes per row are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from slimdex.indexes.errors import InputError

from ...atomic_files import temporary_parent
from ...documents import id_text
from ...index import Index
from ...ingest import writer
from ...ingest.fitting import refit
from ...store.snapshot import Snapshot
from ..query_pools import ASKED, Draw, document_queries, encoded
from ..recall_trials import Pool, Trials
from . import hybrid_choice, metric_choice, targets
from .hybrid_choice import HybridChoice, Judged
from .metric_choice import Cell, Choice
from .proving import Proving
from .settings_grid import SettingsGrid
from .settings_search import SettingsSearch
from .targets import Target, Tuning, provable, shown_down

CHOOSING = 500
"""Largest number of queries to choose settings; of few given queries, a quarter."""
FEWEST_A_DIMENSION = 1.5
"""Documents per dimension below which an index keeps its fallback settings, and isn't tuned."""


@dataclass(frozen=True)
class Asked:
    """Queries (id, text), with or without labels: query id -> document id -> relevance."""

    queries: Sequence[tuple[str, str]]
    labels: Mapping[str, Mapping[str, int]] | None = None

    @classmethod
    def of(
        cls,
        queries: Sequence[str] | Sequence[tuple[str, str]] | None,
        labels: Mapping[Any, Mapping[Any, int]] | None,
    ) -> Asked | None:
        """Queries as `Collection.tune` takes them; None without any."""
        if queries is None:
            if labels is not None:
                raise InputError("labels without queries; expected both")
            return None
        pairs = [(q, q) if isinstance(q, str) else (str(q[0]), str(q[1])) for q in queries]
        return cls(
            pairs,
            labels
            and {
                str(query): {id_text(id): relevance for id, relevance in own.items()}
                for query, own in labels.items()
            },
        )


def tune(
    index: Index, target: Target, asked: Asked | None = None, *, apply: bool = False
) -> Tuning:
    """Find settings for a target and, with `apply`, use them; see `Collection.tune`.

    Raises `InputError` if there are no queries, or too few without labels to prove the target; with
    `apply`, if nothing reaches it.
    """

    def search(snapshot: Snapshot) -> Tuning:
        return _searched(index, snapshot, target, asked)

    if not apply:
        return _with_fusion(index, index.read(search), asked)
    index.check_writable()  # before the search, which takes minutes
    found = index.read(search)
    if found.chosen is None or found.certificate is None:
        raise InputError(found.lacking or "nothing reaches the target")
    if found.chosen.settings != index.state.settings:
        refit(index, found.chosen.settings)
    writer.keep_certificate(index, found.certificate)
    found = _with_fusion(index, found, asked)
    if found.words and found.hybrid != index.state.hybrid:
        writer.keep_fusion(index, found.hybrid)
    return replace(found, applied=True)


def _searched(index: Index, snapshot: Snapshot, target: Target, asked: Asked | None) -> Tuning:
    """Try settings on a snapshot, which stays as it is and readable."""
    snapshot.opened()
    if not len(snapshot):
        raise InputError(f"{index.path} holds no documents; expected some to tune by")
    if asked is not None and not index.can_encode:
        raise InputError("this index has no encoder at hand; expected no text queries")
    few = _too_few(target, asked)
    count, dim = snapshot.searchable_count, snapshot.index.vectors.dim
    if count < FEWEST_A_DIMENSION * dim:
        raise InputError(
            f"{count:,} {snapshot.noun} of {dim} dimensions; expected "
            f"{FEWEST_A_DIMENSION:g} or more for each"
        )
    rng = np.random.default_rng(0)
    with TemporaryDirectory(prefix="slimdex-tune-", dir=temporary_parent()) as folder:
        trials = Trials(snapshot, snapshot.moments(), Path(folder))
        draw, available = _queries(index, snapshot, None if few else asked, rng)
        proving = _proving(available)
        choosing = draw(available - proving)
        choice = _metric(index, snapshot, asked, rng)
        grid = SettingsGrid(trials, choice.cell, with_lists=target.p99_ms is not None)
        exact = partial(trials.exact, rescorer=grid.rescorer)
        proofs = Proving(target.agreement, proving, draw, exact)
        return replace(
            SettingsSearch(trials, target, choice, grid, choosing, proofs).run(), asked=few
        )


def _with_fusion(index: Index, found: Tuning, asked: Asked | None) -> Tuning:
    """Add how `auto` is to fuse, if labelled queries show it."""
    choice = index.read(lambda snapshot: _chosen_hybrid(index, snapshot, asked))
    if choice is None:
        return found
    return replace(found, words=choice.why, hybrid=choice.hybrid or index.state.hybrid)


def chosen_metric(index: Index, snapshot: Snapshot, asked: Asked | None = None) -> Choice:
    """Choose (beta, gamma): without labels, the default for all but raw encoders."""
    return _metric(index, snapshot, asked, np.random.default_rng(0))


def _chosen_hybrid(index: Index, snapshot: Snapshot, asked: Asked | None) -> HybridChoice | None:
    """Choose the fusion with lexical search by labelled queries; None if impossible."""
    encoder = index.query_encoder
    if asked is None or not asked.labels or encoder is None or snapshot.state.words is None:
        return None
    labelled = labelled_queries(snapshot, asked)
    order = np.random.default_rng(0).permutation(len(labelled))[: hybrid_choice.MOST_ASKED]
    judged = [labelled[i] for i in order]
    vectors = encoded(encoder, [query.text for query in judged])
    return hybrid_choice.by_labels(snapshot, vectors, judged)


def _queries(
    index: Index, snapshot: Snapshot, asked: Asked | None, rng: np.random.Generator
) -> tuple[Draw, int]:
    """Return a function that draws the next queries, and the number of queries."""
    encoder = index.query_encoder
    if asked is None:
        draw = document_queries(snapshot, encoder, rng)
        return draw, CHOOSING + targets.most_made()
    assert encoder is not None
    texts = [asked.queries[i][1] for i in rng.permutation(len(asked.queries))]
    rest = iter(texts)
    return lambda count: Pool.asked(ASKED, encoded(encoder, [*islice(rest, count)])), len(texts)


def _proving(count: int) -> int:
    """Number of queries that prove; the others choose: a quarter, and `CHOOSING` at most."""
    return count - min(max(count // 4, 1), CHOOSING)


def _too_few(target: Target, asked: Asked | None) -> str | None:
    """Reason why given queries can't prove a target, whatever they find; None if they can.

    With labels they choose the metric and the fusion, which requires no proof.

    Raises `InputError` if they have no labels, or no queries can prove the target.
    """
    target.checked()
    if asked is None:
        return None
    proving = _proving(len(asked.queries))
    if (most := provable(proving)) >= target.agreement:
        return None
    said = f"{proving:,} of {len(asked.queries):,} queries prove {shown_down(most)} at most"
    if not asked.labels:
        raise InputError(
            f"agreement={target.agreement:g}: {said}; expected more queries, or a lower agreement"
        )
    return (
        f"labels choose the metric and the fusion; {said}, so queries made of the documents choose "
        f"k and candidates and prove {target.agreement:g}"
    )


def _metric(
    index: Index, snapshot: Snapshot, asked: Asked | None, rng: np.random.Generator
) -> Choice:
    """Choose (beta, gamma) by enough labels, otherwise by the encoder's vectors."""
    rule, default, encoder = metric_choice, metric_choice.DEFAULT, index.query_encoder
    moments = snapshot.moments()
    live = snapshot.searchable_rows()
    vectors = snapshot.index.vectors
    sample = np.sort(rng.choice(live, min(len(live), rule.DOCUMENTS), replace=False))
    if asked is not None and asked.labels and encoder is not None:
        labelled = labelled_queries(snapshot, asked)
        if len(labelled) >= rule.FEWEST_LABELLED:
            wanted = np.array([row for query in labelled for row in query.labels])
            own = np.array([query.own for query in labelled])
            rows = np.union1d(sample, np.union1d(wanted, own[own >= 0]))
            place = {row: i for i, row in enumerate(rows.tolist())}
            labels = [
                {place[row]: relevance for row, relevance in query.labels.items()}
                for query in labelled
            ]
            cell, gain, low = rule.by_labels(
                moments,
                vectors.take(rows),
                encoded(encoder, [query.text for query in labelled]),
                labels,
                np.array([place.get(row, -1) for row in own.tolist()]),
            )
            by = f"{len(labelled):,} queries with labels"
            if cell != default and low > 0:
                return Choice(cell, f"{_cell_name(cell)}: {by} gain {100 * gain:.1f} nDCG@10")
            return Choice(default, f"{_cell_name(default)}, the default: {by} show no clear gain")
    kept = f"{_cell_name(default)}, the default"
    if encoder is None:
        return Choice(default, f"{kept}: given vectors have no texts to compare metrics with")
    cosine = rule.mean_cosine(vectors, live, rng)
    if cosine <= rule.RAW_COSINE:
        return Choice(default, f"{kept}: the encoder is tuned (mean cosine {cosine:.2f})")
    X = vectors.take(sample)
    words = rule.keywords(snapshot.texts(sample))
    targets = rng.choice(len(sample), min(rule.KEYWORD_QUERIES, len(sample)), replace=False)
    targets = np.array([target for target in targets.tolist() if words[target]])
    queries = encoded(encoder, [words[target] for target in targets.tolist()])
    cell, gain, low = rule.by_keywords(moments, X, queries, targets)
    if gain < rule.LEAST_GAIN or low <= 0:
        return Choice(default, f"{kept}: mean cosine {cosine:.2f}, but no other is clearly better")
    return Choice(
        cell,
        f"{_cell_name(cell)}: the encoder is raw (mean cosine {cosine:.2f}), and keyword "
        f"queries gain {100 * gain:.0f} points of MRR over the default",
    )


def labelled_queries(snapshot: Snapshot, asked: Asked) -> list[Judged]:
    """The queries with a label of a document that can be found."""
    assert asked.labels is not None
    ids, gone = snapshot.store.ids_by_row(snapshot.state.rows), set(snapshot.hidden.tolist())
    # The first passage represents a document that is cut.
    rows = {id: row for row, id in reversed([*enumerate(ids)]) if row not in gone}
    out = []
    for id, text in asked.queries:
        found = {rows[d]: r for d, r in asked.labels.get(id, {}).items() if d in rows}
        if any(relevance > 0 for relevance in found.values()):
            own = rows.get(id, -1)
            out.append(Judged(text, found, -1 if own in found else own))
    return out


def _cell_name(cell: Cell) -> str:
    return f"beta={cell[0]:g}, gamma={cell[1]:g}"
