"""`slimdex bench sts`: similarity by vectors as they are, whitened, cut and rotated.

A reducer is fitted on all sentences of a set, with repetitions and with those of its train and dev
parts, as in Su et al. (2021). Layer 1 is the first transformer layer, 0 the embedding output.
Results for single layers, other reducers and other texts to fit on are settled.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.reducers.linear import Whitening, principal_axes
from slimdex.indexes.reducers.moments import Moments
from slimdex.retrieval.encoders.opening import is_static
from slimdex.retrieval.encoders.pooling import WK
from slimdex.system.progress import progress

from ..datasets import encode_texts, open_local
from ..options import CACHE
from ..rows import ResultsFile, Row, key_of

if TYPE_CHECKING:
    from ..datasets import LocalEncoder

TARGET = "target"
MODEL_POOLING = "own"
CLS = "cls"
"""The model's own pooling with its further modules; and a mode that the papers do not whiten."""
LAST = (-1,)
FIRST_LAST = (1, -1)
MODES = ("mean", CLS, WK)
LANGUAGE = "english"
MAX_LENGTH = 128
"""Of the sets, and tokens to read of a sentence."""
PROTOCOLS = ("", " mean", " wmean")
"""Suffixes of columns, for the correlation over all pairs of a set, its mean over subtasks, and its
mean weighted by pairs.

MTEB and Reimers & Gurevych (2019) report the first, the code of Huang et al. (2021) the mean, and
those of Li et al. (2020) and Su et al. (2021) the weighted mean.
"""
SEVEN = {
    "STS-B": ("STSBenchmark-test.tsv", "STSBenchmark-train.tsv", "STSBenchmark-dev.tsv"),
    "SICK-R": ("SICK-R-test.tsv", "SICK-R-train.tsv", "SICK-R-trial.tsv"),
    "STS12": ("STS12.tsv",),
    "STS13": ("STS13.cased.tsv",),
    "STS14": ("STS14.cased.tsv",),
    "STS15": ("STS15.cased.tsv",),
    "STS16": ("STS16.cased.tsv",),
}
"""Sets of the papers -> the judged file, and files that only reducers are fitted on.

Case is kept where possible; STS12 is lower-cased.
"""


@dataclass(frozen=True)
class Way:
    """A way from texts to the vectors that are compared.

    Attributes
    ----------
    mode, layers : the pooling.
    fit : texts that whitening is fitted on, "" for none.
    k : dimensions kept, None for all.
    """

    mode: str
    layers: tuple[int, ...] = LAST
    fit: str = ""
    k: int | None = None
    beta: float = 0.0
    gamma: float = 0.0

    @property
    def pooling(self) -> str:
        """Pooling as on the command line."""
        layers = ",".join(map(str, self.layers))
        return self.mode if self.mode in (MODEL_POOLING, WK) else f"{self.mode}@{layers}"

    def columns(self) -> Row:
        """Columns in a row of results."""
        row: Row = asdict(self) | {"layers": list(self.layers), "pooling": self.pooling}
        if not self.fit:
            return row | {"reducer": "none", "k": None, "beta": None, "gamma": None}
        return row | {"reducer": "whitening"}


def ways_of(mode: str, width: int) -> list[list[Way]]:
    """Return a list of ways for each pooling in the papers' tables.

    The first way has no reducer. The others are whitened, rotated and cut to half of the
    dimensions, and whitened and cut to a third; some poolings have only the first.
    """
    half = _part(width, 2)
    third = _part(width, 3)
    poolings = (LAST,) if mode in (MODEL_POOLING, WK, CLS) else (LAST, FIRST_LAST)
    groups = []
    for layers in poolings:
        ways = [Way(mode, layers)]
        if mode not in (WK, CLS):
            fitted = replace(ways[0], fit=TARGET)
            white = replace(fitted, beta=1.0, gamma=1.0)
            ways += [white, replace(fitted, k=half), replace(white, k=third)]
        groups.append(ways)
    return groups


def _part(width: int, of: int) -> int:
    """Return the dimensions divided by `of`, rounded to a multiple of four."""
    return max(round(width / of / 4) * 4, 4)


def measure_model(model: str, sets: Sequence[Pairs], out: Path, about: Row) -> ResultsFile:
    """Append the missing rows of a model; returns its file of rows."""
    has_word_vectors = is_static(model)  # these have no layers and no maximum length
    length = None if has_word_vectors else MAX_LENGTH
    encoder = open_local(model, precision="fp32", max_length=length)
    facts: Row = {
        "model": Path(encoder.spec()["model"]).name,
        "sha256": encoder.spec()["sha256"],
        "max_length": MAX_LENGTH,
        "language": LANGUAGE,
        "width": encoder.width,
        "sets": [pairs.name for pairs in sets],
    }
    results = ResultsFile(out / f"sts-{facts['model']}.jsonl")
    modes = [MODEL_POOLING] if has_word_vectors else MODES
    groups = list[list[Way]]()
    for mode in modes:
        groups += ways_of(mode, encoder.width)

    # Open an encoder for each pooling, but only if a row is missing.
    for done, ways in enumerate(groups, start=1):
        keys = {way: key_of(facts | way.columns()) for way in ways}
        missing = [way for way in ways if keys[way] not in results.rows]
        if missing:
            pooling = None if ways[0].mode == MODEL_POOLING else ways[0].pooling
            pooled = open_local(model, pooling=pooling, precision="fp32", max_length=length)
            vectors = _vectors(pooled, sets)
            for way, row in measure_ways(missing, sets, vectors).items():
                results.append({"key": keys[way]} | facts | way.columns() | row | about)
        progress(facts["model"], done, len(groups))
    return results


def _vectors(encoder: LocalEncoder, sets: Sequence[Pairs]) -> Callable[[Sequence[str]], Matrix]:
    """Encode all texts of sets; returns a function from texts to vectors."""
    distinct = dict[str, None]()
    for pairs in sets:
        distinct |= dict.fromkeys([*pairs.sentences, *pairs.others])
    file = encode_texts(encoder, list(distinct), CACHE)
    row_of = {text: row for row, text in enumerate(distinct)}
    return lambda texts: file.take(np.array([row_of[text] for text in texts]))


def measure_ways(
    ways: Sequence[Way], sets: Sequence[Pairs], vectors: Callable[[Sequence[str]], Matrix]
) -> dict[Way, Row]:
    """Compute each set's correlations and their averages, for ways of the same pooling.

    `vectors` maps texts to their vectors (n, width).
    """
    rows: dict[Way, Row] = {way: {} for way in ways}
    for pairs in sets:
        # Fit reducers on all sentences of the set.
        first = vectors(pairs.first)
        second = vectors(pairs.second)
        fitted_on = [first, second]
        if pairs.others:
            fitted_on.append(vectors(pairs.others))
        moments = Moments(first.shape[1]).update(np.concatenate(fitted_on))

        for way in ways:
            sides = (_transform(first, way, moments), _transform(second, way, moments))
            for protocol, figure in correlations(pairs, *sides).items():
                rows[way][f"{pairs.name}{protocol}"] = figure

    # Average over the sets; a set without subtasks has only one figure.
    protocols = dict[str, None]()
    for pairs in sets:
        protocols |= dict.fromkeys(pairs.protocols)
    for row in rows.values():
        for protocol in protocols:
            figures = []
            for pairs in sets:
                column = f"{pairs.name}{protocol}"
                figures.append(row[column] if column in row else row[pairs.name])
            row[f"average{protocol}"] = float(np.mean(figures))
    return rows


def _transform(side: Matrix, way: Way, moments: Moments) -> NDArray[np.float32]:
    """Reduce the vectors of one side of the pairs, if the way has a reducer.

    They are cut to k dimensions, at most the rank of the moments; k = None stands for the rank.
    """
    if not way.fit:
        return side
    _, _, rank = principal_axes(moments, way.beta)
    whitening = Whitening(min(way.k or rank, rank), way.beta, way.gamma)
    return whitening.fit_moments(moments).transform(side)


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences with human scores.

    Attributes
    ----------
    first, second : the sentences of each pair.
    gold : (n,) scores, higher for more similar.
    subtasks : (n,) source of each pair, if the file has it.
    others : sentences of the set's other parts, with repetitions.
    """

    name: str
    first: Sequence[str]
    second: Sequence[str]
    gold: NDArray[np.float64]
    subtasks: Sequence[str] = ()
    others: Sequence[str] = ()

    @property
    def sentences(self) -> list[str]:
        """Distinct judged sentences, in the order of the file."""
        return list(dict.fromkeys([*self.first, *self.second]))

    @property
    def protocols(self) -> tuple[str, ...]:
        """Protocols of the set's correlation: over all pairs, and by subtasks if it has any."""
        return PROTOCOLS if len(set(self.subtasks)) > 1 else PROTOCOLS[:1]


def read_pairs(path: Path, name: str = "") -> Pairs:
    """Read a table with tabs and a header: sentence1, sentence2, score or label.

    Raises `InputError` if the file is missing or has other columns.
    """
    rows = _table(path)
    columns = set(rows[0]) if rows else set()
    gold = next((name for name in ("score", "label") if name in columns), None)
    if gold is None or not {"sentence1", "sentence2"} <= columns:
        raise InputError(f"{path}: expected columns sentence1, sentence2 and score or label")
    try:
        scores = np.array([float(row[gold]) for row in rows])
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: a {gold} that is no number ({error})") from error

    first = [row["sentence1"] for row in rows]
    second = [row["sentence2"] for row in rows]
    subtasks = [row.get("subtask") or "" for row in rows]
    return Pairs(name or path.stem, first, second, scores, subtasks)


def read_seven(folder: Path) -> list[Pairs]:
    """Read the papers' seven sets from a folder of their files."""
    sets = []
    for name, (judged, *fitted_too) in SEVEN.items():
        others = list[str]()
        for file in fitted_too:
            part = read_pairs(folder / file)
            others += [*part.first, *part.second]
        pairs = read_pairs(folder / judged, name)
        # Only STS12 to STS16 are also averaged by subtasks.
        subtasks = pairs.subtasks if name.startswith("STS1") else ()
        sets.append(replace(pairs, subtasks=subtasks, others=others))
    return sets


def spearman(pairs: Pairs, vectors: Mapping[str, NDArray[np.float32]]) -> float:
    """Spearman's correlation x 100 of cosines and gold, over all pairs of a set.

    `vectors` maps each sentence to its vector (dim,).
    """
    first = np.stack([vectors[text] for text in pairs.first])
    second = np.stack([vectors[text] for text in pairs.second])
    return correlations(pairs, first, second)[""]


def correlations(pairs: Pairs, first: Matrix, second: Matrix) -> dict[str, float]:
    """Map protocols of a set to Spearman's correlation x 100 of cosines (n,) and gold."""
    # Of the extra `bench`, which `bench --help` must not need.
    from scipy.stats import spearmanr

    cosines = np.vecdot(normalize_rows(first), normalize_rows(second))

    def correlation(rows: NDArray[np.bool_] | slice) -> float:
        return 100 * float(spearmanr(cosines[rows], pairs.gold[rows]).statistic)

    over_all = correlation(slice(None))
    if len(pairs.protocols) == 1:
        return {"": over_all}

    # Average over the subtasks, with and without weighting by their number of pairs.
    subtasks = np.array(pairs.subtasks)
    by_subtask = []
    counts = []
    for name in dict.fromkeys(pairs.subtasks):
        is_of_subtask = subtasks == name
        by_subtask.append(correlation(is_of_subtask))
        counts.append(is_of_subtask.sum())
    weighted = np.average(by_subtask, weights=counts)
    figures = (over_all, float(np.mean(by_subtask)), float(weighted))
    return dict(zip(PROTOCOLS, figures, strict=True))


def _table(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a set of pairs") from error
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
