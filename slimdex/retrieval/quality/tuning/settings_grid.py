"""Grid of the settings to try for some rows, by the memory that they take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.errors import InputError
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings

from ..recall_trials import Trials
from .metric_choice import Cell

CANDIDATES = (25, 35, 50, 70, 100, 140, 200, 280, 400, 560, 800, 1100, 1600, 2200, 3200)
LEAST_MOST = 200
ONE_ROW_IN = 20
"""Limit of candidates, beyond 200: one row in so many, above which codes hardly select."""
LISTS_ROWS = 100_000
"""Rows from which inverted lists are tried if time is limited."""
_NARROW = ("pq", (1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0))
_WIDE = (("sq4", (1 / 2, 1.0)), ("sq8", (1 / 2, 1.0)), ("fp16", (1.0,)), ("flat", (1.0,)))
Grid = Sequence[tuple[str, Sequence[float]]]
GRID: Grid = (_NARROW, *_WIDE)
"""Kind -> shares of the dimensions to try."""


class SettingsGrid:
    """Settings to try in a metric: kinds at shares of the dimensions.

    `with_lists` adds inverted lists, for many rows.
    """

    def __init__(
        self, trials: Trials, cell: Cell, with_lists: bool = False, grid: Grid = GRID
    ) -> None:
        self.trials, self.cell = trials, cell
        self.rescorer = Rescorer.fit(trials.moments, *cell)
        most = max(LEAST_MOST, len(trials.live) // ONE_ROW_IN)
        self.counts = [count for count in CANDIDATES if count <= most]
        self._grid, self._with_lists = grid, with_lists and len(trials.live) >= LISTS_ROWS

    @cached_property
    def options(self) -> list[Settings]:
        """All possible settings with the most candidates, those of fewest bytes first."""
        trials, (beta, gamma) = self.trials, self.cell
        options = dict[Settings, int]()
        grid = [*self._grid, *([("ivf-pq", _NARROW[1][4:])] if self._with_lists else [])]
        for name, shares in grid:
            multiple = kind_named(name).multiple
            for share in shares:
                k = max(round(trials.dim * share) // multiple, 1) * multiple
                if k > trials.dim:
                    continue
                settings = Settings(k, beta, gamma, name, self.counts[-1])
                if self.suits(settings):
                    options[settings] = self.least_ram(settings)
        return sorted(options, key=lambda settings: options[settings])

    def suits(self, settings: Settings) -> bool:
        """Return whether there are enough vectors for settings, which have k."""
        trials = self.trials
        try:
            fitted, _ = settings.checked(trials.dim).fitted(trials.moments)
        except InputError:
            return False
        return fitted == settings

    def least_ram(self, settings: Settings) -> int:
        """Bytes of codes, reducer and metric, without codebooks."""
        trials, k = self.trials, settings.k
        assert k is not None
        row = FaissIndex(kind_named(settings.kind), k, len(trials.vectors)).row_nbytes
        return round(row * len(trials.vectors)) + 4 * k * trials.dim + self.rescorer.nbytes
