"""Tuning: the cheapest settings that reach an agreement, proved on separate queries.

First (beta, gamma) are chosen, which define the exact search: see `metric_choice`. Then come the
smallest memory and, with it, the fewest candidates whose agreement with exact search in that metric
reaches the target: see `settings_search`. Only queries are encoded, and only temporary files of 4
bytes per row are written.
"""

from __future__ import annotations

from dataclasses import replace
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
from ..store.state import Certificate
from . import tuning_targets
from .hybrid_choice import choose_fusion
from .labels import UserQueries
from .metric_choice import choose_metric
from .query_pools import FROM_USER, Draw, document_queries, encode_with_progress
from .recall_trials import ERROR, Pool, Trials
from .settings_search import search_settings
from .tuning_targets import CHOSEN, Target, TrialResult, Tuning, name_of, provable

CHOOSING = 500
"""Largest number of queries to choose settings; of few given queries, a quarter."""
FEWEST_A_DIMENSION = 1.5
"""Documents per dimension below which an index keeps its fallback settings, and isn't tuned."""


def tune(
    index: Index, target: Target, user_queries: UserQueries | None = None, *, apply: bool = False
) -> Tuning:
    """Find settings for a target and, with `apply`, use them; see `Collection.tune`.

    Raises `InputError` if there are no queries, or too few without labels to prove the target; with
    `apply`, if nothing reaches it.
    """
    if apply:
        index.check_writable()  # before the search, which takes minutes
    tuning = index.read(_search, index, target, user_queries)
    if apply:
        if tuning.chosen is None or tuning.certificate is None:
            raise InputError(tuning.lacking or "nothing reaches the target")
        if tuning.chosen.settings != index.state.settings:
            refit(index, tuning.chosen.settings)
        writer.keep_certificate(index, tuning.certificate, tuning.chosen.settings)

    # The fusion for `auto`, if there are labels to choose by.
    choice = index.read(lambda snapshot: choose_fusion(index, snapshot, user_queries))
    if choice is not None:
        hybrid = choice.hybrid or index.state.hybrid
        tuning = replace(tuning, words=choice.why, hybrid=hybrid)
        if apply and hybrid != index.state.hybrid:
            writer.keep_fusion(index, hybrid)
    return replace(tuning, applied=apply)


def _search(
    snapshot: Snapshot, index: Index, target: Target, user_queries: UserQueries | None
) -> Tuning:
    """Try settings on a snapshot, which stays unchanged."""
    snapshot.check_encoded()
    snapshot.open()  # so that its files stay readable meanwhile
    if user_queries is not None and not index.can_encode:
        raise InputError("this index has no encoder at hand; expected no text queries")
    why_too_few = _too_few(target, user_queries)
    count = snapshot.searchable_count
    dim = snapshot.state.dim
    if count < FEWEST_A_DIMENSION * dim:
        raise InputError(
            f"{count:,} {snapshot.noun} of {dim} dimensions; expected "
            f"{FEWEST_A_DIMENSION:g} or more for each"
        )
    rng = np.random.default_rng(0)
    with TemporaryDirectory(prefix="slimdex-tune-", dir=temporary_parent()) as folder:
        # Some queries choose, the others prove.
        trials = Trials(snapshot, Path(folder))
        usable_queries = None if why_too_few else user_queries
        draw, available = _queries(index, snapshot, usable_queries, rng)
        proving = _proving(available)
        choosing = draw(available - proving)

        # The metric, and the settings.
        choice = choose_metric(index, snapshot, user_queries, rng)
        tried = search_settings(trials, target, choice.cell, choosing, draw, proving)
    tuning = Tuning(
        target=target,
        rows=count,
        noun=snapshot.noun,
        metric=choice.why,
        tried=tried,
        asked=why_too_few,
    )
    if not tried or tried[-1].verdict != CHOSEN:
        return replace(tuning, lacking=_lacking(target, tried))
    chosen = tried[-1]
    certificate = Certificate(
        estimate=chosen.estimate,
        bound=chosen.bound,
        error=ERROR,
        pool=choosing.name,
        queries=chosen.queries,
        rows=count,
        target=target.agreement,
    )
    return replace(tuning, chosen=chosen, certificate=certificate)


def _lacking(target: Target, tried: list[TrialResult]) -> str:
    """Explain that the target was missed, and name the best settings."""
    text = f"an agreement of {target.agreement:g} is not proved"
    if not tried:
        return f"{text}: all settings take more memory"
    best = max(tried, key=lambda each: each.estimate)
    return (
        f"{text}; the best that was measured is {best.estimate:.4f}, at least {best.bound:.4f} "
        f"by {best.queries:,} queries ({name_of(best.settings)}): {best.verdict}"
    )


def _queries(
    index: Index, snapshot: Snapshot, user_queries: UserQueries | None, rng: np.random.Generator
) -> tuple[Draw, int]:
    """Return a function that draws a number of further queries, and how many there are.

    Without the user's queries, they are made of the documents.
    """
    encoder = index.encoder_if_any
    if user_queries is None:
        draw = document_queries(snapshot, encoder, rng)
        return draw, CHOOSING + tuning_targets.most_made()
    assert encoder is not None

    # Draw the user's queries in random order, each once.
    texts = [user_queries.queries[i][1] for i in rng.permutation(len(user_queries.queries))]
    remaining = iter(texts)

    def draw_next(count: int) -> Pool:
        vectors = encode_with_progress(encoder, [*islice(remaining, count)])
        return Pool.of_queries(FROM_USER, vectors)

    return draw_next, len(texts)


def _proving(count: int) -> int:
    """Number of queries that prove; the others choose: a quarter, and `CHOOSING` at most."""
    return count - min(max(count // 4, 1), CHOOSING)


def _too_few(target: Target, user_queries: UserQueries | None) -> str | None:
    """Return why the user's queries are too few to prove a target; None if they are enough.

    They are too few if they could not prove it even with an agreement of 1. If labelled, they still
    choose the metric and the fusion, which requires no proof.

    Raises `InputError` if they have no labels, or no queries can prove the target.
    """
    target.checked()
    if user_queries is None:
        return None
    count = len(user_queries.queries)
    proving = _proving(count)
    most = provable(proving)
    if most >= target.agreement:
        return None
    reason = f"{proving:,} of {count:,} queries prove {most:.4f} at most"
    if not user_queries.labels:
        raise InputError(
            f"agreement={target.agreement:g}: {reason}; expected more queries, or a lower agreement"
        )
    return (
        f"labels choose the metric and the fusion; {reason}, so queries made of the documents "
        f"choose k and candidates and prove {target.agreement:g}"
    )
