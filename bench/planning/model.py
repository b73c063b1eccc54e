"""Model: every law that a plan is made of, fitted to the rows of a folder.

What each law's figure grows with, its terms, is stated in docs/plan.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from . import observations as seen
from .laws import Law
from .workload import STORED, Workload


@dataclass(frozen=True)
class Model:
    """Laws by what they state; bytes, or seconds of one core.

    Attributes
    ----------
    code : bytes of a row's code in memory.
    fixed : bytes of reducer, metric and codebooks, which do not grow with the rows.
    memory : bytes of an index in memory, by these two.
    vectors : stored -> bytes of a vector on disk.
    norms, documents, catalog : bytes on disk.
    fit, index, write : seconds of a core for the parts of a build.
    timed_on : the indexes and the processors that these seconds are of.
    """

    code: Law
    fixed: Law
    memory: Law
    vectors: dict[str, Law]
    norms: Law
    documents: Law
    catalog: Law
    fit: Law
    index: Law
    write: Law
    timed_on: str

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
            vectors={
                stored: Law.fitted("vectors on disk", seen.of_vectors(rows.stored, stored))
                for stored in STORED
            },
            norms=disk("norms", "rows"),
            documents=disk("documents", "rows", "text"),
            catalog=disk("catalog", "once", "rows", "text"),
            fit=seconds("fitting", "fit", "once", "centroids", "numbers", "scatter"),
            index=seconds("coding", "index", "numbers", "products", "assigned"),
            write=seconds("writing", "write", "rows", "numbers", "text"),
            timed_on=seen.timed_on(timed),
        )

    def laws(self) -> list[tuple[str, Law]]:
        """Every law with the unit of its figure, in the order of a plan."""
        stored = [(f"bytes a row, {name}", law) for name, law in self.vectors.items()]
        return [
            ("bytes a row", self.code),
            *(("bytes", law) for law in (self.fixed, self.memory)),
            *stored,
            *(("bytes", law) for law in (self.norms, self.documents, self.catalog)),
            *(("s of a core", law) for law in (self.fit, self.index, self.write)),
        ]

    def index_bytes(self, workload: Workload) -> float:
        """Codes, reducer and metric in memory."""
        terms = workload.terms()
        return self.memory({"parts": self.code(terms) * workload.documents + self.fixed(terms)})
