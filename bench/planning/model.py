"""Model: every law that a plan is made of, fitted to the rows of a folder.

What each law's figure grows with, its terms, is stated in docs/plan.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from slimdex.indexes.choices import CANDIDATES_TO

from . import observations as seen
from .laws import Evidence, Law
from .workload import STORED, Workload


@dataclass(frozen=True)
class Model:
    """Laws by what they tell; bytes, or seconds of one core.

    Attributes
    ----------
    code : bytes of a row's code in memory.
    fixed : bytes of reducer, metric and codebooks, which do not grow with the rows.
    memory : bytes of an index in memory, by these two.
    process : bytes of a process that has opened it.
    vectors : stored -> bytes of a vector on disk.
    norms, documents, catalog : bytes on disk.
    token, query : seconds of a core to encode a token of a document, and seconds for a query.
    fit, index, write : seconds of a core for the parts of a build.
    search, hits : seconds from a vector to rows, and from rows to documents.
    page : seconds for each page that has to come from the disk.
    missed : the logarithm of the candidates that a recall takes.
    """

    code: Law
    fixed: Law
    memory: Law
    process: Law
    vectors: dict[str, Law]
    norms: Law
    documents: Law
    catalog: Law
    token: Law
    query: Law
    fit: Law
    index: Law
    write: Law
    search: Law
    hits: Law
    page: Law
    missed: Law

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Fitted to the rows of a folder.

        Raises
        ------
        InputError
            If rows that a law needs are missing.
        """
        rows = seen.Rows(folder)
        timed, held = seen.large(rows.sizes), [*rows.sizes, *rows.retrieval]
        code = Law.fitted("a row's code", seen.of_column(held, "ram_row_bytes", seen.CODE))
        fixed = Law.fitted("the rest", seen.of_column(held, "ram_fixed_bytes", seen.FIXED))

        def disk(part: str, *terms: str) -> Law:
            column = f"disk_{part}_bytes"
            return Law.fitted(f"{part} on disk", seen.of_column(rows.sizes, column, terms))

        def seconds(name: str, part: str, *terms: str) -> Law:
            return Law.fitted(name, seen.of_column(timed, f"{part}_cpu_s", terms))

        return cls(
            code=code,
            fixed=fixed,
            memory=Law.fitted("index in memory", seen.of_indexes(seen.large(held), code, fixed)),
            process=Law.fitted("process that searches", seen.of_process(timed)),
            vectors={
                stored: Law.fitted("vectors on disk", seen.of_vectors(rows.stored, stored))
                for stored in STORED
            },
            norms=disk("norms", "rows"),
            documents=disk("documents", "rows", "text"),
            catalog=disk("catalog", "once", "rows", "text"),
            token=Law.fitted("encoding", seen.of_encoding(rows.encode)),
            query=Law.fitted("encoding a query", seen.of_queries(rows.encode)),
            fit=seconds("fitting", "fit", "once", "centroids", "numbers", "scatter"),
            index=seconds("coding", "index", "numbers", "products", "assigned"),
            write=seconds("writing", "write", "rows", "numbers", "text"),
            search=Law.fitted("searching", seen.of_searches(timed)),
            hits=Law.fitted("documents of a search", seen.of_hits(timed)),
            page=Law.fitted("reading from disk", seen.of_cold(rows.cold)),
            missed=Law.fitted("recall", seen.of_recall(rows.peers, rows.tune)),
        )

    def laws(self) -> list[tuple[str, Law]]:
        """Every law with the unit of its figure, in the order of a plan."""
        core = "s of a core"
        stored = [(f"bytes a row, {name}", law) for name, law in self.vectors.items()]
        return [
            ("bytes a row", self.code),
            *(("bytes", law) for law in (self.fixed, self.memory, self.process)),
            *stored,
            *(("bytes", law) for law in (self.norms, self.documents, self.catalog)),
            (f"{core} a token", self.token),
            *((core, law) for law in (self.fit, self.index, self.write)),
            *(("s", law) for law in (self.query, self.search, self.hits, self.page)),
            ("ln(candidates / cube root of documents / 60,000)", self.missed),
        ]

    def candidates(self, rows: int, recall: float) -> int:
        """How many have to be rescored for a recall@10 among so many rows."""
        each = math.exp(self.missed({"once": 1.0, "missed": -math.log(1 - recall)}))
        return max(10, round(each * math.cbrt(rows / CANDIDATES_TO)))

    def recall_evidence(self, rows: int, recall: float) -> Evidence:
        """How far `candidates` rests on what was measured; they are fitted as logarithms."""
        evidence = self.missed.evidence({"rows": rows, "missed": 1 - recall})
        off = (abs(math.expm1(self.missed(one.terms) - one.value)) for one in self.missed.seen)
        return replace(evidence, error=max(off))

    def index_bytes(self, workload: Workload) -> float:
        """Codes, reducer and metric in memory."""
        terms = workload.terms()
        parts = self.code(terms) * workload.documents + self.fixed(terms)
        return self.memory({"parts": parts})

    def process_bytes(self, workload: Workload) -> float:
        """What the process that has it open holds of its own."""
        terms = {"once": 1.0, "index": self.index_bytes(workload), "rows": workload.documents}
        return self.process(terms)
