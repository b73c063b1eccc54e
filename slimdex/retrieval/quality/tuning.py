"""Tuning: the cheapest settings that reach an agreement, proved on separate queries.

First (beta, gamma) are chosen, which define the exact search: see `metric_choice`. Then come the
smallest memory and, with it, the fewest candidates whose agreement with exact search in that metric
reaches the target: see `settings_search`. Only queries are encoded, and only temporary files of 4
bytes per row are written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slimdex.errors import InputError
from slimdex.system.atomic_files import temporary_parent

from ..index import Index
from ..ingest import writer
from ..ingest.fitting import refit
from ..store.snapshot import Snapshot
from . import targets
from .hybrid_choice import chosen_fusion
from .labels import Asked
from .metric_choice import chosen_metric
from .query_pools import ASKED, Draw, document_queries, encoded
from .recall_trials import Pool, Trials
from .settings_search import SettingsGrid, SettingsSearch
from .targets import Proving, Target, Tuning, provable, shown_down

CHOOSING = 500
"""Largest number of queries to choose settings; of few given queries, a quarter."""
FEWEST_A_DIMENSION = 1.5
"""Documents per dimension below which an index keeps its fallback settings, and isn't tuned."""


def tune(
    index: Index, target: Target, asked: Asked | None = None, *, apply: bool = False
) -> Tuning:
    """Find settings for a target and, with `apply`, use them; see `Collection.tune`.

    Raises `InputError` if there are no queries, or too few without labels to prove the target; with
    `apply`, if nothing reaches it.
    """

    if apply:
        index.check_writable()  # before the search, which takes minutes
    found = index.read(lambda snapshot: _searched(index, snapshot, target, asked))
    if not apply:
        return _with_fusion(index, found, asked)
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
    count = snapshot.searchable_count
    dim = snapshot.index.vectors.dim
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
        choice = chosen_metric(index, snapshot, asked, rng)
        grid = SettingsGrid(trials, choice.cell, with_lists=target.p99_ms is not None)
        exact = partial(trials.exact, rescorer=grid.rescorer)
        proofs = Proving(target.agreement, proving, draw, exact)
        return replace(
            SettingsSearch(
                trials=trials,
                target=target,
                choice=choice,
                grid=grid,
                choosing=choosing,
                proving=proofs,
            ).run(),
            asked=few,
        )


def _with_fusion(index: Index, found: Tuning, asked: Asked | None) -> Tuning:
    """Add how `auto` is to fuse, if labelled queries show it."""
    choice = index.read(lambda snapshot: chosen_fusion(index, snapshot, asked))
    if choice is None:
        return found
    return replace(found, words=choice.why, hybrid=choice.hybrid or index.state.hybrid)


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
