"""Migrator: measure what another encoder would give an index, and change to it by a map.

Both encoders encode a sample of the documents. Queries, with labels or made of other documents,
search the sample by each option: by the old encoder; by the new one, mapped into the old space; and
by the new one in its own space. Every option searches the same documents, so the differences count,
while the values themselves are higher than those of the whole index.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slimdex.indexes.errors import InputError, SlimdexError
from slimdex.indexes.execution.progress import note
from slimdex.indexes.maps.affine_map import AffineMap
from slimdex.indexes.maps.fitting import fit_map
from slimdex.indexes.reducers.moments import Moments

from ...encoders.base import Encoder
from ...ingest.migration.mapping import check_unmapped, map_encoder
from ...open_index import OpenIndex
from ...storage.snapshot import Snapshot
from ...trials.query_pools import encoded
from ..tuning.tuner import Asked
from .options import ENCODE, MAP, SECONDS_AN_HOUR, STAY, Migration, Option, advised
from .samples import Sample


def migrate(
    core: OpenIndex,
    encoder: Encoder,
    asked: Asked | None = None,
    *,
    sample: int | None = None,
    target: float | None = None,
    apply: bool = False,
) -> Migration:
    """Compare another encoder with the index's own; see `Collection.migrate`."""
    check_unmapped(core)
    if target is not None and not 0 < target <= 1:
        raise InputError(f"target={target:g}; expected above 0, and at most 1")
    found, made = core.read(lambda snapshot: _measured(core, snapshot, encoder, asked, sample))
    if not apply:
        return found
    mapped = found.option(MAP)
    assert mapped is not None
    if target is not None and mapped.bound < target:
        raise InputError(
            f"the map's nDCG@10 is {mapped.estimate:.4f}, at least {mapped.bound:.4f} with 95% "
            f"confidence; expected at least {target:g}"
        )
    map_encoder(core, encoder, made)
    return replace(found, applied=True)


def _measured(
    core: OpenIndex, snapshot: Snapshot, encoder: Encoder, asked: Asked | None, count: int | None
) -> tuple[Migration, AffineMap]:
    """Measure all options on a snapshot."""
    sample = Sample.drawn(core, snapshot, asked, count)
    texts = [question.text for question in sample.questions]
    new, seconds = sample.encoded(core, snapshot, encoder)
    old = snapshot.index.vectors.take(sample.searched)
    fitted = np.searchsorted(sample.searched, sample.fitted)
    made = fit_map(new[fitted], old[fitted])
    moments, queries = core.commit_log.moments(), encoded(encoder, texts)
    mapped = sample.judged(snapshot, made(queries), old, moments)
    again = sample.judged(snapshot, queries, new, Moments.of_rows(new))
    stay = None
    if (present := _own(core)) is not None:
        stay = sample.judged(snapshot, encoded(present, texts), old, moments)
    hours = seconds * len(snapshot.searchable_rows()) / SECONDS_AN_HOUR
    options = [Option.of(MAP, mapped, stay), Option.of(ENCODE, again, stay, hours)]
    if stay is not None:
        options = [Option.of(STAY, stay, None), *options]
    advice, why = advised(stay, mapped, again)
    counts = len(sample.fitted), len(sample.searched)
    return Migration(options, advice, why, made.name, *counts, sample.pool, len(texts)), made


def _own(core: OpenIndex) -> Encoder | None:
    """The index's own encoder; None, with a note, if it can't be loaded."""
    try:
        return core.query_encoder
    except (SlimdexError, KeyError) as error:
        note(f"the index's own encoder can't be loaded, so that staying is not measured: {error}")
        return None
