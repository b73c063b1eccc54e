"""Measurable: methods that measure the quality of an index, and change it accordingly.

Methods import what only they need, as those of `Collection` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..encoders.base import Encoder, for_new_documents
from ..open_index import OpenIndex

if TYPE_CHECKING:
    from ..ingest.migration.replacing import Replaced
    from .migration.options import Migration
    from .near_duplicates import DuplicateGroup
    from .tuning.targets import Target, Tuning


class Measurable:
    """An open index whose quality can be measured.

    Attributes
    ----------
    core : the index.
    """

    core: OpenIndex

    def health(self, *, sample: int = 2000) -> dict[str, Any]:
        """Measure how far the documents are from those of the fit; see `health.health`.

        Raises `InputError` for fewer than three documents, or if `sample` is less than 1.
        """
        from .health import health

        return self.core.read(lambda snapshot: health(self.core, snapshot, sample))

    def near_duplicates(self, min_score: float = 0.95) -> list[DuplicateGroup]:
        """Find documents whose vectors are nearly equal, exactly; see `near_duplicates`.

        Parameters
        ----------
        min_score : least cosine of the encoder's vectors.

        Raises `InputError` if there are no documents yet, or ``0 < min_score <= 1`` is not true.
        """
        from .near_duplicates import near_duplicates

        return self.core.read(lambda snapshot: near_duplicates(snapshot, min_score))

    def tune(
        self,
        target: Target | None = None,
        *,
        queries: Sequence[str] | Sequence[tuple[str, str]] | None = None,
        labels: Mapping[str, Mapping[str, int]] | None = None,
        apply: bool = False,
    ) -> Tuning:
        """Find the cheapest settings that agree with exact search, and prove it; see `tuning`.

        Parameters
        ----------
        target : by default an agreement of .99, at the lowest cost.
        queries : real queries, as texts or (id, text); by default some are made of the documents.
        labels : query id -> document id -> relevance, to choose (beta, gamma) and, with a words'
            index, the fusion of `hybrid="auto"`.
        apply : give the settings to the index, as `reduce` does, and keep the certificate.

        Raises `InputError` if there are no documents, if the queries have no labels and are too few
        to prove the target or, with `apply`, if nothing reaches it.
        """
        from .tuning.targets import Target
        from .tuning.tuner import Asked, tune

        return tune(self.core, target or Target(), Asked.of(queries, labels), apply=apply)

    def migrate(
        self,
        encoder: Encoder | Callable[[list[str]], Any],
        *,
        queries: Sequence[tuple[str, str]] | None = None,
        labels: Mapping[str, Mapping[str, int]] | None = None,
        sample: int | None = None,
        target: float | None = None,
        apply: bool = False,
    ) -> Migration:
        """Measure what another encoder would give: by a map of its queries, and by encoding again.

        Parameters
        ----------
        encoder : the new one.
        queries, labels : as for `tune`; by default, queries are made of the documents.
        sample : documents to encode for the map; by default 5%, from 2,000 to 10,000.
        target : with `apply`, the nDCG@10 that the map must reach, proved with 95% confidence.
        apply : map queries and new documents from now on; `undo_migration` undoes it. Documents
            keep their vectors.

        Raises
        ------
        InputError
            If there are too few documents, the encoder is mapped already, or the map misses the
            target.
        """
        from ..encoders.adapters import as_encoder
        from .migration.migrator import migrate
        from .tuning.tuner import Asked

        asked, made = Asked.of(queries, labels), for_new_documents(as_encoder(encoder))
        return migrate(self.core, made, asked, sample=sample, target=target, apply=apply)

    def reencode(
        self,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        *,
        minutes: float | None = None,
    ) -> Replaced:
        """Encode all documents again by another encoder, or go on with it.

        Searches are answered by the old vectors until all documents have new ones; then one commit
        replaces vectors, encoder, and fit. A kill loses the last 256 passages at most. Documents
        can be added meanwhile.

        Parameters
        ----------
        encoder : the new one; by default that of the last run or of `migrate`.
        minutes : time after which a run ends, to be continued by another; by default it goes on to
            the end.

        Raises
        ------
        InputError
            If there is no such encoder, or it is the index's own.
        """
        from ..encoders.adapters import as_encoder
        from ..ingest.migration.replacing import next_encoder, replace_vectors

        if encoder is None:
            made = next_encoder(self.core)
        else:
            made = for_new_documents(as_encoder(encoder))
        return replace_vectors(self.core, made, None if minutes is None else 60 * minutes)

    def undo_migration(self) -> None:
        """Undo a `reencode` that is not finished, or else `migrate` with `apply`."""
        from ..ingest.migration.mapping import undo

        undo(self.core)
