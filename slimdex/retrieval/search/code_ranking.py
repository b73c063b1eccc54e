"""Ranking in an index that is mostly source code, after the fusion.

A question about code asks for the file that does something or defines a name. Files that only use
it, tests and texts about it often share more words with the question. So the score of each row
above that of an unrelated one is multiplied by factors of its file:

- a test or an example counts half, unless the query asks for one;
- so does a file that is not code, such as a README, unless the query asks for one;
- a file's name in the query counts up to half more: the square of the share of its words;
- several good passages of a file: each one adds to the best half as much as the one before.

A row that defines a name in the query counts up to double. If the query is that name, or asks where
it is defined, the row comes before all others. Of several, one with the same letters and qualifiers
counts most, and tests least.

Factors depend on the query, the file and the whole collection, so the order of two rows depends on
neither filter nor limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, contains, union

from ..lexical.code_files import CODE, CodeFile, Definition, parts_of_name
from ..lexical.fusion import Candidates
from ..lexical.tokens import stems_of, words_of
from ..store.snapshot import Snapshot

TESTS, TEXTS, DEFINITIONS, FILE_NAMES, PASSAGES = RULES = (
    *("tests", "texts", "definitions", "file names", "passages"),
)
ASIDE = 0.5
"""Factor of a test, an example, or a file that is not code."""
NAMED = 0.5
"""Most that the words of a file's name add to its scores, as a share of these."""
DEFINES = 10.0
"""Added to a row that defines the name that the query consists of; exceeds any other score."""
TEST_WORDS = frozenset([
    "benchmark", "benchmarks", "demo", "demos", "example", "examples", "fixture", "fixtures",
    "mock", "mocks", "sample", "samples", "spec", "specs", "test", "tested", "testing", "tests",
    "unittest", "unittests",
])  # fmt: skip
"""Words of queries for tests and examples."""
TEXT_WORDS = frozenset([
    "changelog", "contributing", "dockerfile", "docs", "documentation", "faq", "guide", "install",
    "installation", "installing", "licence", "license", "makefile", "markdown", "readme",
    "tutorial",
])  # fmt: skip
"""Words of queries for files that are not code."""
LONGEST_NAMED = 1000
"""Characters of a query in which names are looked for; the time grows with their square."""
_NAME = r"(?<![\w$.:#>])[^\W\d][\w$]*+(?:(?:\.|::?|#|->)[^\W\d][\w$]*+)*+"
"""A name from its beginning: one found from within would be tried at each of its parts."""
_ONE_NAME = re.compile(rf"\W*({_NAME})(?:\(\))?\W*")
_QUOTED = re.compile(rf"`({_NAME})(?:\(\))?`|({_NAME})\(")
_DEFINED = re.compile(rf"({_NAME}) (?:is )?(?:defined|declared)\b")
_CAPITALISED = re.compile(r"(?<=\w )[A-Z][a-z]\w+")
"""A capitalised word within a sentence."""
_HAS_STRUCTURE = re.compile(r"[a-z\d][A-Z]|[A-Z]{2}[a-z]|[A-Za-z\d]_[A-Za-z\d]|::|#|->|\w\.\w")
"""Signs of a name rather than a word: an inner capital, an underscore or a qualifier."""


def names_in(query: str) -> list[tuple[str, ...]]:
    """Names of definitions in a query, each with its qualifiers; a query of one word is a name.

    >>> names_in("Router"), names_in("where is newCORSMiddleware?"), names_in("Rack::Builder")
    ([('Router',)], [('newCORSMiddleware',)], [('Rack', 'Builder')])
    >>> names_in("how does `serve` call read_timeout()"), names_in("request timeout in mux.go")
    ([('serve',), ('read_timeout',)], [])
    >>> names_in("how does the Engine start"), names_in("where is größe defined")
    ([('Engine',)], [('größe',)])
    """
    if only_name := _ONE_NAME.fullmatch(query):
        names = [only_name[1]]
    else:
        names = [*map("".join, _QUOTED.findall(query))]
        names += _DEFINED.findall(query) + _CAPITALISED.findall(query)
        names += filter(_HAS_STRUCTURE.search, re.findall(_NAME, query))

    # Leave out names of files, such as "mux.go": they are not definitions.
    paths = dict.fromkeys(tuple(parts_of_name(name)) for name in names)
    return [path for path in paths if len(path) == 1 or f".{path[-1].lower()}" not in CODE]


@dataclass(frozen=True)
class CodeRanking:
    """Ranks the rows of an index of source code.

    Attributes
    ----------
    rules : those of `RULES` to apply; all but in a study of what each gains.
    """

    snapshot: Snapshot
    rules: Sequence[str] = RULES

    def scores(
        self, query: str, candidates: Candidates, fused: NDArray[np.float64], unrelated: float
    ) -> NDArray[np.float64]:
        """Scores (n,) of the candidates of a query, from their fused scores (n,).

        `unrelated` is the fused score of a row that has nothing to do with the query.
        """
        # Each candidate's position among the documents.
        documents, positions = np.unique(
            self.snapshot.document_rows.documents(candidates.rows), return_inverse=True
        )
        files = self.snapshot.code_files(documents.tolist())
        above = fused - unrelated
        question = _Query.of(query, self.rules)

        # Rows that only a filtered search finds are no evidence, nor are names.
        scales = candidates.scales
        in_scales = contains(union(scales.near.rows, scales.words.rows), candidates.rows)
        is_text = (above > 0) & ~candidates.is_named
        counted = np.where(in_scales & is_text, above, 0)
        factors = np.array([question.factor(file) for file in files])
        if PASSAGES in self.rules:
            factors *= _evidence(counted, positions, len(documents))
        ranked = np.where(is_text, unrelated + above * factors[positions], fused)

        # Raise rows that define a name in the query; of several definitions, the best counts.
        out = ranked.copy()
        for file, first in zip(files, documents.tolist(), strict=True):
            for definition, weight in question.definitions_in(file):
                row = candidates.rows == first + definition.passage
                score = np.maximum(ranked[row] - unrelated, 0)
                gain = DEFINES if question.is_for_definition else score
                out[row] = np.maximum(out[row], ranked[row] + weight * gain)
        return out

    def definitions(self, query: str, rows: Rows) -> dict[int, int]:
        """Row -> where its best definition of a name in the query begins, if it has one."""
        question = _Query.of(query, self.rules)
        if not question.names:
            return {}
        firsts = self.snapshot.document_rows.documents(rows).tolist()
        # Keep the definition that fits best; of equal ones the first, whose -start is the largest.
        best = dict[int, tuple[float, int]]()
        for file, first in zip(self.snapshot.code_files(firsts), firsts, strict=True):
            for definition, weight in question.definitions_in(file):
                row = first + definition.passage
                best[row] = max(best.get(row, (0.0, 0)), (weight, -definition.start))
        return {row: -negative_start for row, (_, negative_start) in best.items()}


def _evidence(above: NDArray[np.float64], place: Rows, count: int) -> NDArray[np.float64]:
    """Score of all rows of each document, as a multiple of its best row's, 1 to 2.

    A document's best row counts in full, and each further row half as much as the one before.

    Parameters
    ----------
    above : (n,), how far the score of each row exceeds that of an unrelated row.
    place : (n,), number of each row's document, less than `count`.

    >>> _evidence(np.array([0.25, 0.5, 0.5, 0.5]), np.array([0, 0, 1, 0]), 2).tolist()
    [1.625, 1.0]
    """
    above = np.maximum(above, 0)
    order = np.lexsort((-above, place))  # by document, best rows first
    firsts = np.searchsorted(place[order], np.arange(count))
    ranks = np.arange(len(order)) - firsts[place[order]]
    sums = np.bincount(place[order], np.ldexp(above[order], -ranks), count)
    best = above[order][firsts]
    return np.divide(sums, best, out=np.ones(count), where=best > 0)


@dataclass(frozen=True)
class _Query:
    """A query, read for the rules that are applied.

    Attributes
    ----------
    stems : of the words that files' names may have.
    asks_for_tests, asks_for_texts : whether tests, and files that are not code, count in full.
    is_for_definition : whether it is a name, or asks where one is defined.
    """

    stems: frozenset[str]
    names: list[tuple[str, ...]]
    asks_for_tests: bool
    asks_for_texts: bool
    is_for_definition: bool

    @classmethod
    def of(cls, text: str, rules: Sequence[str]) -> _Query:
        """Analyse a query; attributes of rules that are not applied get values without effect."""
        words = words_of(text)
        start = text[:LONGEST_NAMED]
        return cls(
            stems=frozenset(stems_of(text)) if FILE_NAMES in rules else frozenset(),
            names=names_in(start) if DEFINITIONS in rules else [],
            asks_for_tests=TESTS not in rules or not TEST_WORDS.isdisjoint(words),
            asks_for_texts=TEXTS not in rules or not TEXT_WORDS.isdisjoint(words),
            is_for_definition=bool(_ONE_NAME.fullmatch(start) or _DEFINED.search(start)),
        )

    def factor(self, file: CodeFile) -> float:
        """Factor of a file's scores, without those of its passages."""
        share = file.share_in(self.stems)
        factor = 1 + NAMED * share * share
        if file.is_code:
            is_aside = file.is_test and not self.asks_for_tests
        else:
            is_aside = not self.asks_for_texts
        if is_aside:
            factor *= ASIDE
        return factor

    def definitions_in(self, file: CodeFile) -> Iterator[tuple[Definition, float]]:
        """Yield definitions of the query's names in a file, and how well each fits, 0 to 1."""
        for name in self.names:
            for definition in file.definitions.get(name[-1].lower(), ()):
                weight = 1.0 if definition.path[-len(name) :] == name else 0.5
                if file.is_test and not self.asks_for_tests:
                    weight *= ASIDE
                yield definition, weight
