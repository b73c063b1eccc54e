"""`slimdex bench sts`: what whitening, k, beta, gamma, layers and reducers do to similarity.

One pass of the model over all sentences; everything after is arithmetic on its vectors. Layer 1 is
the first transformer layer, 0 the embedding output. Covariances are divided by n, as in Su et al.
(2021); no cosine depends on that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.linear import Whitening, principal_axes
from slimdex.indexes.moments import Moments
from slimdex.indexes.progress import progress
from slimdex.indexes.reducer import Reducer
from slimdex.indexes.registry import REDUCERS
from slimdex.retrieval.encoders.opened import OpenedEncoder, is_static, open_encoder
from slimdex.retrieval.encoders.pooling import WK
from slimdex.retrieval.encoders.transformer import TransformerEncoder

from ..data.layer_vectors import OWN, WHOLE, Layers, encoded_layers
from ..data.pairs import (
    PROTOCOLS,
    Pairs,
    cosines_of,
    rank_correlation,
    read_sentences,
    read_sets,
)
from ..rows import ResultsFile, Row, key_of

TARGET, NLI = "target", "NLI"
"""Sentences that a reducer is fitted on: all of a set with its train and dev parts, each as often
as it occurs, as in Su et al.'s code; or those of SNLI, each once."""
LAST, FIRST_LAST = (-1,), (1, -1)
CLS = "cls"
"""The mode that, with `WK`, the papers do not whiten."""
SHARES = (1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 1.0)
"""k as shares of the width."""
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of beta and gamma."""
CORNERS = ((0.0, 0.0), (0.0, 0.25), (1.0, 0.0), (1.0, 0.5), (1.0, 1.0))
MOST_COMBINED = 4
"""Layers that are averaged, at most, in the search for the best of so many."""


@dataclass(frozen=True)
class Way:
    """One way from hidden states to the vectors that are compared.

    Attributes
    ----------
    mode, layers : the pooling.
    fit : what the reducer is fitted on, "" for none.
    reducer : a name in `registry.REDUCERS`.
    k : dimensions kept, None for all that the reducer can.
    """

    mode: str = "mean"
    layers: tuple[int, ...] = LAST
    fit: str = ""
    reducer: str = "whitening"
    k: int | None = None
    beta: float = 0.0
    gamma: float = 0.0

    @property
    def pooling(self) -> str:
        """As on the command line."""
        return self.mode if self.mode in WHOLE else f"{self.mode}@{','.join(map(str, self.layers))}"

    def columns(self) -> Row:
        """Its columns in a row of results."""
        row: Row = asdict(self) | {"layers": list(self.layers), "pooling": self.pooling}
        if not self.fit:
            row |= {"reducer": "none", "k": None, "beta": None, "gamma": None}
        return row


@dataclass(frozen=True)
class Sentences:
    """Sets of pairs of a language, and sentences of SNLI that reducers are fitted on.

    Attributes
    ----------
    language : with "(quick)" if the sets are a part only.
    """

    language: str
    sets: Sequence[Pairs]
    nli: Sequence[str]
    quick: bool

    @classmethod
    def read(cls, data: Path, language: str, *, quick: bool) -> Sentences:
        """Those in a folder with sts, nli and chinese; a quick part is the first set alone."""
        sets, nli = read_sets(data, language), read_sentences(data, language)
        if quick:
            sets, nli, language = [replace(sets[0], others=())], [], f"{language} (quick)"
        return cls(language, sets, nli, quick)

    def encoded(
        self, by_mode: Callable[[str], OpenedEncoder], ways: Sequence[Way], cache: Path
    ) -> dict[str, Layers]:
        """Mode -> vectors of all sentences that its ways need."""
        fitted = {way.mode for way in ways if way.fit}
        judged = [sentence for pairs in self.sets for sentence in pairs.sentences]
        others = [s for pairs in self.sets for s in (*pairs.sentences, *pairs.others)]
        found = {}
        for mode in dict.fromkeys(way.mode for way in ways):
            needed = list(dict.fromkeys([*others, *self.nli] if mode in fitted else judged))
            found[mode] = encoded_layers(by_mode(mode), needed, mode, cache)
        return found


def measure_model(
    model: str,
    sentences: Sentences,
    modes: Sequence[str],
    max_length: int,
    folders: tuple[Path, Path],
    about: Row,
    *,
    curves: bool = True,
) -> tuple[ResultsFile, list[Row]]:
    """Measure all ways of a model; returns its file of rows, and the rows of these sets.

    Parameters
    ----------
    folders : for rows, and for encoded vectors.
    """
    own_only = is_static(model)  # it has no layers, and no length
    encoder = open_encoder(model, precision="fp32", max_length=None if own_only else max_length)
    facts: Row = {
        "model": Path(encoder.spec()["model"]).name,
        "sha256": encoder.spec()["sha256"],
        "max_length": max_length,
        "language": sentences.language,
        "width": encoder.width,
        "sets": [pairs.name for pairs in sentences.sets],
    }
    ways = study(
        encoder.layers + 1,
        encoder.width,
        [OWN] if own_only else modes,
        bool(sentences.nli),
        sentences.quick,
        curves=curves,
    )
    part = "-zh" if sentences.language.startswith("chinese") else ""
    results = ResultsFile(folders[0] / f"sts-{facts['model']}{part}.jsonl")

    def by_mode(mode: str) -> OpenedEncoder:
        if mode != WK:
            return encoder
        return TransformerEncoder(model, pooling=WK, precision="fp32", max_length=max_length)

    layers = sentences.encoded(by_mode, ways, folders[1])
    measure_study(ways, layers, sentences.sets, sentences.nli, results, facts, about)
    rows = results.rows.values()
    return results, [row for row in rows if all(row[name] == facts[name] for name in facts)]


def study(
    layers: int,
    width: int,
    modes: Sequence[str],
    nli: bool,
    quick: bool,
    *,
    curves: bool = True,
) -> list[Way]:
    """The ways that are tried on a model, in the order of the papers' tables and figures.

    Parameters
    ----------
    layers : of the model, its embeddings among them.
    quick : poolings and whitening only.
    curves : whether what the figures show is tried, too, and other reducers.
    """
    fits = (TARGET, NLI) if nli else (TARGET,)
    parts: list[Iterable[Way]] = [_tables(modes, width, fits)]
    if not quick:
        main = next((mode for mode in modes if mode not in WHOLE), OWN)
        if main != OWN:
            parts.append([Way(main, FIRST_LAST, fit, "flow") for fit in fits])
        if curves:
            parts += [_curve(Way(main), width), _surface(Way(main), width)]
            parts.append(_reducers(Way(main), width))
        if curves and main != OWN:
            parts += [_curve(Way(main, FIRST_LAST), width), _layers(main, layers)]
    return list(dict.fromkeys(way for part in parts for way in part))


def _tables(modes: Sequence[str], width: int, fits: Sequence[str]) -> Iterator[Way]:
    """Rows of the papers' tables: poolings, some whitened, whole and cut, and as a cut rotation."""
    half, third = _multiple(width / 2), _multiple(width / 3)
    for mode in modes:
        for combination in (LAST,) if mode in (*WHOLE, CLS) else (LAST, FIRST_LAST):
            base = Way(mode, combination)
            yield base
            for fit in () if mode in (WK, CLS) else fits:
                yield replace(base, fit=fit, beta=1.0, gamma=1.0)
                yield replace(base, fit=fit, k=half)
                yield replace(base, fit=fit, k=third, beta=1.0, gamma=1.0)


def _curve(base: Way, width: int) -> Iterator[Way]:
    """Correlation against k (Su et al., Figure 1)."""
    for share in SHARES:
        for beta, gamma in ((0.0, 0.0), (0.0, 0.25), (1.0, 1.0)):
            k = None if share == 1.0 else _multiple(width * share)
            yield replace(base, fit=TARGET, k=k, beta=beta, gamma=gamma)


def _surface(base: Way, width: int) -> Iterator[Way]:
    """Every beta with every gamma, at half of the dimensions."""
    for beta in STEPS:
        for gamma in STEPS:
            yield replace(base, fit=TARGET, k=_multiple(width / 2), beta=beta, gamma=gamma)


def _reducers(base: Way, width: int) -> Iterator[Way]:
    """Every linear reducer at a quarter of the dimensions."""
    k = _multiple(width / 4)
    for name in REDUCERS:
        if name not in ("identity", "whitening", "flow", "autoencoder"):
            yield replace(base, fit=TARGET, reducer=name, k=k)
    for beta, gamma in CORNERS:
        yield replace(base, fit=TARGET, k=k, beta=beta, gamma=gamma)


def _layers(mode: str, layers: int) -> Iterator[Way]:
    """Every pair of layers (Huang et al., Figure 1) and every few (Figure 2), none and whitened."""
    for count in range(1, MOST_COMBINED + 1):
        for combination in combinations(range(layers), count):
            yield Way(mode, combination)
            if count <= 2:
                yield Way(mode, combination, TARGET, beta=1.0, gamma=1.0)


def measure_study(
    ways: Sequence[Way],
    layers: dict[str, Layers],
    sets: Sequence[Pairs],
    nli: Sequence[str],
    results: ResultsFile,
    facts: Row,
    about: Row,
) -> None:
    """Append a row for each way that has none yet: every set's correlation and their average.

    Sets with subtasks are judged by every protocol, in columns such as "STS12" and "STS12 mean".

    Parameters
    ----------
    layers : mode -> vectors of all sentences, those of `nli` among them.
    facts : what every row says of the model, and is named by.
    """
    grouped: dict[tuple[str, tuple[int, ...]], list[Way]] = {}
    for way in ways:
        grouped.setdefault((way.mode, way.layers), []).append(way)
    done = 0
    for (mode, _), group in grouped.items():
        rows = {key_of(facts | way.columns()): way for way in group}
        missing = {key: way for key, way in rows.items() if key not in results.rows}
        if missing:
            found = _correlations(list(missing.values()), layers[mode], sets, nli)
            for key, way in missing.items():
                results.append({"key": key} | facts | way.columns() | found[way] | about)
        done += len(group)
        progress(f"{facts['model']}", done, len(ways))


def correlation(row: Row, name: str, protocol: str) -> float:
    """A set's correlation, or the average, by a protocol: that of all pairs if it has no other.

    >>> correlation({"STS12": 60.0, "STS12 mean": 62.5}, "STS12", "mean")
    62.5
    """
    column = _column(name, protocol)
    return float(row[column if column in row else name])


def _column(name: str, protocol: str) -> str:
    return name if protocol == PROTOCOLS[0] else f"{name} {protocol}"


class ComparedPairs:
    """A set's vectors by one pooling; what is fitted on them is fitted once.

    Parameters
    ----------
    fitted_on : `TARGET`, `NLI` -> the vectors that reducers are fitted on.
    shared : reducers that are fitted on NLI, which all sets use.
    """

    def __init__(
        self,
        first: Matrix,
        second: Matrix,
        fitted_on: Mapping[str, Matrix],
        shared: dict[Way, Reducer],
    ) -> None:
        self._first, self._second = first, second
        self._fitted_on, self._shared = fitted_on, shared
        self._turned: dict[tuple[str, float], tuple[Matrix, Matrix, NDArray[np.float64]]] = {}

    def cosines(self, way: Way) -> NDArray[np.float32]:
        """Of every pair (n,)."""
        if not way.fit:
            return cosines_of(self._first, self._second)
        if way.reducer == "whitening":
            # One decomposition for each beta: k cuts its axes and gamma scales them.
            first, second, values = self._principal(way.fit, way.beta)
            k = min(way.k or len(values), len(values))
            scale = (values[:k] ** (-way.gamma / 2)).astype(np.float32)
            return cosines_of(first[:, :k] * scale, second[:, :k] * scale)
        reducer = self._shared.get(way)
        if reducer is None:
            k = way.k or self._first.shape[1]
            reducer = REDUCERS[way.reducer].configured(k, way.beta, way.gamma)
            reducer.fit(self._fitted_on[way.fit])
            if way.fit == NLI:
                self._shared[way] = reducer
        return cosines_of(reducer.transform(self._first), reducer.transform(self._second))

    def _principal(self, fit: str, beta: float) -> tuple[Matrix, Matrix, NDArray[np.float64]]:
        """Both sides along all principal axes, and the eigenvalues."""
        if (fit, beta) not in self._turned:
            X = self._fitted_on[fit]
            moments = Moments(X.shape[1]).update(X)
            values, _, rank = principal_axes(moments, beta)
            turn = Whitening(rank, beta, gamma=0.0).fit_moments(moments)
            sides = turn.transform(self._first), turn.transform(self._second)
            self._turned[fit, beta] = (*sides, values[:rank])
        return self._turned[fit, beta]


def _correlations(
    ways: Sequence[Way], layers: Layers, sets: Sequence[Pairs], nli: Sequence[str]
) -> dict[Way, Row]:
    """Columns of Spearman's x 100 and its averages, for ways that have the same pooling."""
    found: dict[Way, Row] = {way: {} for way in ways}
    chosen, shared = ways[0].layers, dict[Way, Reducer]()
    fits = {way.fit for way in ways}
    fitted_on = {NLI: layers.of(nli, chosen)} if NLI in fits else {}
    for pairs in sets:
        first, second = layers.of_pairs(pairs, chosen)
        if TARGET in fits:
            fitted_on[TARGET] = np.concatenate([first, second, layers.of(pairs.others, chosen)])
        judged = ComparedPairs(first, second, fitted_on, shared)
        for way in ways:
            cosines = judged.cosines(way)
            for protocol in pairs.protocols:
                column = _column(pairs.name, protocol)
                found[way][column] = rank_correlation(cosines, pairs, protocol)
    for protocol in dict.fromkeys(protocol for pairs in sets for protocol in pairs.protocols):
        for row in found.values():
            figures = [correlation(row, pairs.name, protocol) for pairs in sets]
            row[_column("average", protocol)] = float(np.mean(figures))
    return found


def _multiple(k: float) -> int:
    """The nearest number of dimensions that product quantisation takes, too.

    >>> _multiple(768 / 3), _multiple(312 / 2), _multiple(1.5)
    (256, 156, 4)
    """
    return max(round(k / 4) * 4, 4)
