"""Settings: what an index is asked to be, and what fits the data it gets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from .choices import AUTO, Choices
from .errors import InputError
from .kinds import FLAT, by_size, kind_named
from .linear import Identity, Whitening, principal_axes
from .moments import Moments
from .reducer import Reducer, RowFile
from .registry import REDUCERS
from .vector_index import FaissIndex

MOST_CANDIDATES = 1 << 40
"""More than any index has rows; a catalog with a number beyond 64 bits could not be read again."""


@dataclass(frozen=True)
class Settings(Choices):
    """How vectors are reduced, kept and rescored.

    Parameters
    ----------
    k : dimensions to keep, up to the encoder's; None chooses half of them.
    beta, gamma : of the whitening, 0 to 1, also used for rescoring at full dimension.
    kind : a name in `kinds.KINDS` or a FAISS factory string; "auto" chooses by the rows.
    candidates : rows rescored for each query; 0 turns rescoring off, None lets them grow with
        the index: see `choices.usual_candidates`.
    reducer : a name in `registry.REDUCERS`.
    """

    def checked(self, dim: int) -> Self:
        """These settings, once they are known to suit vectors of `dim` dimensions.

        Raises
        ------
        InputError
            For a k, kind, reducer, beta, gamma or candidates that never could.
        """
        if self.reducer not in REDUCERS:
            raise InputError(f"reducer={self.reducer!r}; expected one of {', '.join(REDUCERS)}")
        if self.candidates is not None and self.candidates < 0:
            raise InputError(f"candidates={self.candidates}; expected 0 (off) or more")
        if self.candidates is not None and self.candidates > MOST_CANDIDATES:
            raise InputError(f"candidates={self.candidates}; expected {MOST_CANDIDATES} or fewer")
        for name, value in (("beta", self.beta), ("gamma", self.gamma)):
            if not 0 <= value <= 1:  # also refuses NaN
                raise InputError(f"{name}={value}; expected 0 to 1")
        if self.k is not None and not 1 <= self.k <= dim:
            raise InputError(f"k={self.k}; expected 1 to the encoder's {dim} dimensions")
        self._reducer.check_components(self._k(dim), dim)
        kind = kind_named(self.kind)
        if self.k is not None and self.k % kind.multiple:
            raise InputError(
                f"k={self.k} does not suit kind {kind.name}; expected a multiple of {kind.multiple}"
            )
        FaissIndex(kind, self._k(dim), kind.min_rows)
        return self

    def changed(self, changes: Mapping[str, Any], dim: int) -> Self:
        """These with some changes, for vectors of `dim` dimensions; another reducer or kind may
        keep another number of them, if none is asked for.

        Raises
        ------
        InputError
            As `checked` does.
        """
        settings = replace(self, **changes)
        try:
            return settings.checked(dim)
        except InputError:
            if changes.get("k") is not None:
                raise
            return replace(settings, k=None).checked(dim)

    def check_count(self, n: int) -> None:
        """Raise `InputError` if n vectors are too few for the reducer, whatever they are."""
        if n < self._reducer.min_rows:
            raise InputError(
                f"{n} documents; reducer {self.reducer} expects {self._reducer.min_rows} or more"
            )

    def fitted(self, moments: Moments) -> tuple[Self, list[str]]:
        """Settings that these vectors can bear, and a line that says what was changed, if any.

        A small corpus has too few rows to train a kind, or spans fewer than k dimensions. What
        is chosen instead loses nothing: float32 rows, k = all dimensions that the data span,
        and no whitening with fewer vectors than dimensions. A k that was asked for stays where
        there are as many vectors: dimensions that they do not span do no harm.

        Raises
        ------
        InputError
            If there are no data.
        """
        if not moments.n:
            raise InputError("no vectors; expected some to fit a reducer on")
        out, changes = replace(self, kind=kind_named(self.kind, moments.n).name), list[str]()
        k, dim = self._k(moments.dim), moments.dim
        _, _, rank = principal_axes(moments, self.beta)
        too_wide = k > rank and self._reducer.bounded_by_rank
        is_few, is_free = moments.n < dim, self.k is None
        kind = kind_named(out.kind)
        if is_few and (is_free or too_wide) and (self.beta, self.gamma) != (0.0, 0.0):
            out = replace(out, beta=0.0, gamma=0.0)
            changes.append(f"the order is the model's own, whitened from {dim} vectors on")
        if too_wide and (is_few or is_free):
            k = max(rank, 1)
            changes.append(f"dimensions kept: {k}, all that {moments.n} vectors span")
        if moments.n < kind.min_rows or k % kind.multiple:
            out = replace(out, kind=FLAT.name)
            few = f"kind {kind.name} compresses from {kind.min_rows} vectors on"
            odd = f"kind {kind.name} takes a multiple of {kind.multiple} dimensions"
            why = few if moments.n < kind.min_rows else odd
            changes.append(f"vectors are float32 and searched exactly (kind flat): {why}")
        small = "a small index, which changes as it grows: "
        notes = [small + "; ".join(changes)] if changes else []
        return replace(out, k=k), notes

    def resolved(self, dim: int, rows: int) -> Self:
        """These settings with k and kind known, as a corpus large enough gets them."""
        return replace(self, k=self._k(dim), kind=kind_named(self.kind, rows).name)

    def is_met(self, settings: Settings, dim: int) -> bool:
        """Whether settings in force are these, and not what a small corpus gets in their place.

        Of `auto`, what it was for another number of rows will do.
        """
        wanted = self.resolved(dim, 0)
        if self.kind == AUTO and settings.kind == by_size(sys.maxsize).name:
            wanted = replace(wanted, kind=settings.kind)
        return settings == wanted

    def fit_reducer(self, vectors: RowFile, moments: Moments) -> Reducer:
        """The reducer for these vectors, its axes dealt out as the kind likes them; k is known."""
        assert self.k is not None
        reducer = self._reducer.configured(self.k, self.beta, self.gamma)
        reducer = reducer.fit_vectors(vectors, moments)
        if isinstance(reducer, Whitening):
            reducer.balance_subspaces(kind_named(self.kind).subquantizers(self.k, moments.n))
        return reducer

    @property
    def _reducer(self) -> type[Reducer]:
        return REDUCERS[self.reducer]

    def _k(self, dim: int) -> int:
        if self.k is not None:
            return self.k
        if self._reducer is Identity:
            return dim
        multiple = kind_named(self.kind).multiple
        return dim // 2 // multiple * multiple or min(multiple, dim)
