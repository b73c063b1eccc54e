"""`slimdex plan`: what an index will take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes import options as choices
from slimdex.retrieval.cli.opening import Json
from slimdex.retrieval.cli.settings import K, NoLexical, Stored

if TYPE_CHECKING:
    from ..workload import Workload

UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True)
class WorkloadOptions:
    """Documents to plan for, and settings of their index."""

    documents: Annotated[float, "How many, as 1e9; count passages if texts are cut into them."]
    dim: Annotated[int, "Dimensions of the encoder's vectors."] = 384
    tokens: Annotated[float, "Tokens of a document, of 4 bytes each."] = 100
    columns: Annotated[float, "Bytes of a document's title and metadata."] = 0
    k: K = None
    kind: Annotated[str, "How vectors are coded: pq, ivf-pq or auto."] = choices.AUTO
    vector_dtype: Stored = "fp16"
    no_lexical: NoLexical = False
    tokens_per_s: Annotated[
        float | None,
        "Tokens that are encoded per second, as `slimdex bench encode` measures; default: "
        "encoding is not timed.",
    ] = None

    def workload(self) -> Workload:
        """Return the checked workload."""
        from ..workload import LEAST, MOST, Workload, check_range

        check_range("--documents", self.documents, LEAST, MOST)
        return Workload(
            round(self.documents),
            self.dim,
            self.tokens,
            self.columns,
            self.k,
            self.kind,
            self.vector_dtype,
            not self.no_lexical,
            self.tokens_per_s,
        )


def plan(workload: WorkloadOptions, as_json: Json = False) -> None:
    """Estimate what an index will take: memory, disk, and hours of encoding."""
    from slimdex.retrieval.cli import console

    planned = workload.workload()
    if as_json:
        console.print_json(planned.as_dict())
        return
    lists = f" ({planned.lists:,} lists)" if planned.lists else ""
    kind = f"{planned.resolved_kind}{lists}, k={planned.kept} of {planned.dim}"
    console.line(f"{planned.documents:,} documents: {kind}")
    console.show_pairs(_figures(planned))
    for line in _left_out(planned):
        console.line(line)


def _figures(planned: Workload) -> dict[str, str]:
    found = {"index in memory": size_text(planned.memory), "index on disk": size_text(planned.disk)}
    found |= {f"  {name}": size_text(size) for name, size in planned.files.items()}
    hours = planned.hours
    return found if hours is None else found | {"encoding": f"{_digits(hours)} h"}


def _left_out(planned: Workload) -> list[str]:
    """Say what the figures leave out."""
    lexical = "words (the lexical index)"
    words = f"{lexical} as of English texts" if planned.lexical else f"without {lexical}"
    is_timed = planned.hours is not None
    return [
        "memory: codes, reducer and metric; Python, its libraries and the encoder are extra",
        f"disk: the segments as if their texts were not compressed; {words}",
        "hours: encoding alone; fitting, coding and writing are extra"
        if is_timed
        else "hours: unknown without --tokens-per-s",
    ]


def size_text(size: float) -> str:
    """Format bytes in three digits.

    >>> size_text(56e9), size_text(999.6e6), size_text(1234)
    ('56 GB', '1 GB', '1.23 kB')
    """
    unit, scale = next((each for each in UNITS if size >= each[1] * 0.9995), UNITS[-1])
    return f"{_digits(size / scale)} {unit}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"
