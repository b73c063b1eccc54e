"""Settings of an index, validated and adapted to its data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from slimdex.errors import InputError, check_choice, short_repr

from .codes.kinds import FLAT, KINDS, Kind, kind_named
from .options import AUTO, QUERY_ENCODERS, REDUCERS, Choices
from .reducers.linear import Identity, Whitening, principal_axes
from .reducers.moments import Moments
from .reducers.reducer import Reducer, reducer_class
from .vectors.vector_file import VectorFile

MOST_CANDIDATES = 1 << 40
"""More than the rows of any index; the catalog can't store numbers beyond 64 bits."""


@dataclass(frozen=True)
class Settings(Choices):
    """Settings for reducing, encoding and rescoring vectors.

    Raises `InputError` for a value that suits no vectors; `checked` checks k and kind for some.

    Parameters
    ----------
    k
        dimensions to keep, at most the encoder's; None means half of them, rounded down to a
        multiple that the kind requires.
    beta
        share of the mean to subtract, 0 to 1, also used for rescoring at full dimension.
    gamma
        degree of whitening, 0 to 1, also used for rescoring at full dimension.
    kind
        a name in `kinds.KINDS`; "auto" depends on the rows.
    candidates
        rows to rescore for ten results, and in proportion for more: see
        `ReducedIndex.candidates_for`; 0 turns rescoring off, None scales with the index: see
        `options.default_candidates`.
    reducer
        one of `options.REDUCERS`.
    query_encoder
        "model"; or "table", a token table fitted to the documents, which is much faster and
        slightly less accurate: see `retrieval.encoders.token_table`.

    Examples
    --------
    >>> Settings(gamma=9)
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: gamma=9; expected 0 to 1
    """

    def __post_init__(self) -> None:
        for name, least, shown in (("k", 1, "1"), ("candidates", 0, "0 (off)")):
            value = getattr(self, name)
            if value is None:
                continue
            if type(value) is not int or value < least:  # bool is a subclass of int
                raise InputError(f"{name}={value!r}; expected a whole number, {shown} or more")
        if self.candidates is not None and self.candidates > MOST_CANDIDATES:
            raise InputError(f"candidates={self.candidates}; expected {MOST_CANDIDATES} or fewer")
        for name in ("beta", "gamma"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= 1:  # also refuses NaN
                raise InputError(f"{name}={value!r}; expected 0 to 1")
        check_choice("reducer", self.reducer, REDUCERS)
        check_choice("query_encoder", self.query_encoder, QUERY_ENCODERS)
        check_choice("kind", self.kind, (AUTO, *KINDS))

    def checked(self, dim: int) -> Self:
        """Return these settings after validating them for vectors of `dim` dimensions.

        Raises `InputError` for a k or kind that does not suit them.
        """
        if self.k is not None and self.k > dim:
            raise InputError(f"k={self.k}; expected 1 to the encoder's {dim} dimensions")
        self._reducer.check_components(self._k(dim), dim)
        kind = kind_named(self.kind)
        # With fewer dimensions than the multiple, no k is suitable, so the kind becomes `FLAT`.
        if self.k is not None and self.k % kind.multiple and dim >= kind.multiple:
            raise InputError(
                f"k={self.k} does not suit kind {kind.name}; expected a multiple of {kind.multiple}"
            )
        return self

    def changed(self, changes: Mapping[str, Any], dim: int) -> Self:
        """Return settings with some fields changed, validated for `dim` dimensions.

        If the present k does not suit the new reducer or kind, it becomes None unless given.

        Raises `InputError` as `checked` does.
        """
        settings = replace(self, **changes)
        try:
            return settings.checked(dim)
        except InputError:
            if changes.get("k") is not None:
                raise
            return replace(settings, k=None).checked(dim)

    def check_count(self, n: int) -> None:
        """Raise `InputError` if n vectors are too few for the reducer."""
        if n < self._reducer.min_rows:
            raise InputError(
                f"{n} documents; reducer {self.reducer} expects {self._reducer.min_rows} or more"
            )

    def fitted(self, moments: Moments) -> tuple[Self, list[str]]:
        """Return settings that suit these vectors, and notes on requested ones that do not.

        A small corpus has too few rows to train a kind, or spans fewer than k dimensions. The
        replacement keeps float32 rows, k is the rank of the data if that is less, and there is no
        whitening with fewer vectors than dimensions. An explicit k stays if there are as many
        vectors as dimensions; the dimensions that the data do not span do no harm.

        Raises `InputError` if there are no data.
        """
        if not moments.n:
            raise InputError("no vectors; expected some to fit a reducer on")
        out = replace(self, kind=kind_named(self.kind, moments.n).name)
        changes = list[str]()  # those that more vectors would undo
        k = self._k(moments.dim, moments.n)
        dim = moments.dim
        _, _, rank = principal_axes(moments, self.beta)
        exceeds_rank = k > rank and self._reducer.bounded_by_rank
        has_few_rows = moments.n < dim
        is_free = self.k is None
        kind = kind_named(out.kind)

        # Whitening and k, limited by the rank of the data.
        is_whitened = (self.beta, self.gamma) != (0.0, 0.0)
        if has_few_rows and is_whitened and (is_free or exceeds_rank):
            out = replace(out, beta=0.0, gamma=0.0)
            changes.append(f"not whitened (that needs {dim} vectors)")
        if exceeds_rank and (has_few_rows or is_free):
            k = max(rank, 1)
            if not is_free:
                changes.append(f"k={k} (the most that so few vectors allow)")

        # The kind, limited by its training rows and by the dimensions.
        needs_multiple = f"kind {kind.name} needs a multiple of {kind.multiple} dimensions"
        needs_rows = f"kind {kind.name} needs {kind.min_rows} vectors"
        unquantised = "vectors are not quantised"
        notes = list[str]()
        can_train = moments.n >= kind.min_rows
        if self._kind(dim, moments.n).name != kind.name:
            # k is not a multiple, regardless of the number of vectors.
            out = replace(out, kind=FLAT.name)
            notes.append(f"{unquantised}: {needs_multiple}")
        elif not can_train or k % kind.multiple:
            out = replace(out, kind=FLAT.name)
            if self.kind != AUTO:
                changes.insert(0, f"{unquantised} ({needs_multiple if can_train else needs_rows})")

        if changes:
            notes.append(f"small index, fitted again as it grows: {', '.join(changes)}")
        return replace(out, k=k), notes

    def resolved(self, dim: int, rows: int) -> Self:
        """Return settings with k and kind as `rows` rows get them, if enough to train on."""
        return replace(self, k=self._k(dim, rows), kind=self._kind(dim, rows).name)

    def matches(self, settings: Settings, dim: int) -> bool:
        """Return whether `settings`, those in force, are these and not what `fitted` changed.

        For kind `auto`, the choice for any number of rows counts as a match.
        """
        for_few_rows = self.resolved(dim, 0)
        for_many_rows = self.resolved(dim, sys.maxsize)
        return settings in (for_few_rows, for_many_rows)

    def fit_reducer(self, vectors: VectorFile, moments: Moments) -> Reducer:
        """Fit the reducer to these vectors, with subspaces balanced for the kind; requires k."""
        assert self.k is not None
        reducer = self._reducer.configured(self.k, self.beta, self.gamma)
        reducer = reducer.fit_vectors(vectors, moments)
        if isinstance(reducer, Whitening):
            reducer.balance_subspaces(kind_named(self.kind).subquantizers(self.k))
        return reducer

    @property
    def _reducer(self) -> type[Reducer]:
        return reducer_class(self.reducer)

    def _kind(self, dim: int, rows: int = 0) -> Kind:
        """Kind to use: `FLAT` if k is no multiple of the dimensions that the kind requires."""
        kind = kind_named(self.kind, rows)
        return FLAT if self._k(dim, rows) % kind.multiple else kind

    def _k(self, dim: int, rows: int = 0) -> int:
        """Dimensions to keep: k, or the default of the reducer or kind."""
        if self.k is not None:
            return self.k
        if self._reducer is Identity:
            return dim
        return kind_named(self.kind, rows).dimensions(dim)


def as_settings(value: Any) -> Settings:
    """Return a caller's settings, by default `Settings()`; raise `InputError` for another type.

    >>> as_settings({"k": 64})
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: settings={'k': 64}; expected Settings(k=64, ...)
    """
    if value is None:
        return Settings()
    if isinstance(value, Settings):
        return value
    raise InputError(f"settings={short_repr(value)}; expected Settings(k=64, ...)")
