"""The grid: methods that are measured on every set, with every model.

Sizes are shares of the model's d dimensions, so that they are comparable between models. A new
reducer or kind of the catalog needs one line here.
"""

from __future__ import annotations

from collections.abc import Iterator

from slimdex.indexes.options import CANDIDATES
from slimdex.indexes.settings import Settings

from ..engines.registry import Method

RESCORED = CANDIDATES
DEFAULTS = Settings(kind="pq", candidates=RESCORED)
"""Defaults of an index of up to 60,000 documents, used for larger sets too so that rows compare."""
UNCOMPRESSED = "float32"
GRID_PEERS = ("ST int8", "ST binary")
"""Baselines of the grid: sentence-transformers' quantisers. Other peers have their own bench."""

REDUCERS: dict[str, Settings] = {
    "slimdex": DEFAULTS,
    "PCA": Settings(beta=1.0, gamma=0.0),
    "rotation": Settings(beta=0.0, gamma=0.0),
    "BERT-whitening": Settings(beta=1.0, gamma=1.0),
    "truncate": Settings(beta=0.0, gamma=0.0, reducer="truncate"),
    "random projection": Settings(beta=0.0, gamma=0.0, reducer="random"),
}
"""Name -> way of reducing dimensions; the name also stands for its (beta, gamma)."""
OTHERS: dict[str, Settings] = {
    "all but the top": Settings(beta=0.0, gamma=0.0, reducer="all-but-the-top"),
    "tied autoencoder": Settings(beta=0.0, gamma=0.0, reducer="autoencoder"),
    "flow": Settings(beta=0.0, gamma=0.0, reducer="flow"),
}
"""The same, for half of the dimensions only."""

CURVE = ((1, 12), (1, 6), (1, 4), (1, 2), (2, 3))
"""k as shares of d."""


def uncompressed(dim: int) -> Method:
    """Exact float32 search, the reference for all methods."""
    return _plain(UNCOMPRESSED, dim, "flat")


def grid(dim: int, rows: int, *, quick: bool = False) -> list[Method]:
    """Methods for `rows` vectors of `dim` dimensions, uncompressed first."""
    parts = [baselines(dim), sizes(dim, rows), reducers(dim)]
    if not quick:
        parts += [k_curve(dim), kinds(dim), codes(dim), optimised(dim)]
    chosen = {repr(method): method for part in parts for method in part}
    return list(chosen.values())


def baselines(dim: int) -> Iterator[Method]:
    """No reduction: floats, scalar and product quantisers, binary; also rescored."""
    yield uncompressed(dim)
    yield _plain("float16", dim, "fp16")
    yield _plain("int8", dim, "sq8")
    yield _plain("RaBitQ", dim, "rabitq", RESCORED)
    yield from map(Method.of_peer, GRID_PEERS)


def sizes(dim: int, rows: int) -> Iterator[Method]:
    """slimdex at 1/64, 1/96, 1/128 and 1/192 of float32; one number of candidates is 1% of the
    rows."""
    efforts = tuple(sorted({RESCORED, max(rows // 100, 10)}))
    for of in (2, 3, 4, 6):
        yield Method("slimdex", Settings(k=part(dim, of), kind="pq"), (0, *efforts))


def reducers(dim: int) -> Iterator[Method]:
    """All ways of reducing to half of the dimensions, at the same bytes."""
    for name, settings in (REDUCERS | OTHERS).items():
        yield _reduced(name, settings, part(dim, 2), "pq", RESCORED)


def k_curve(dim: int) -> Iterator[Method]:
    """Quality against k, without quantising and rescoring."""
    for share, of in CURVE:
        for name, settings in REDUCERS.items():
            if name != "rotation":  # it differs from PCA by the mean only
                yield _reduced(name, settings, part(dim, of, share), "flat")


def kinds(dim: int) -> Iterator[Method]:
    """Other index kinds over the same reduced rows."""
    for kind in ("rabitq", "sq4", "sq8", "fp16", "ivf-pq", "hnsw"):
        yield _reduced("slimdex", DEFAULTS, part(dim, 2), kind, RESCORED)


def codes(dim: int) -> Iterator[Method]:
    """Codes alone at 1/8, 1/16 and 1/32 of float32, without vectors on disk."""
    half, quarter = part(dim, 2), part(dim, 4)
    for k, kind in (
        (half, "sq8"),  # 1/8
        (half, "sq4"),  # 1/16
        (quarter, "sq8"),
        (half, f"PQ{half}x4fs"),
        (half, f"PQ{half // 2}x4fs"),  # 1/32
        (quarter, "sq4"),
    ):
        yield _reduced("slimdex", DEFAULTS, k, kind)
    yield _reduced("slimdex", DEFAULTS, half, f"PQ{half // 4}")  # 1/32
    yield _plain("int4", dim, "sq4")  # 1/8
    yield _plain("PQ", dim, f"PQ{_divisor(dim, half)}x4fs")  # 1/16
    yield _plain("PQ", dim, f"PQ{_divisor(dim, quarter)}x4fs")  # 1/32


def optimised(dim: int) -> Iterator[Method]:
    """FAISS's OPQ at 1/64 and 1/32; last, since it trains for minutes."""
    for of in (16, 8):
        groups = _divisor(dim, dim // of)
        yield _plain("OPQ+PQ", dim, f"OPQ{groups},PQ{groups}", RESCORED)


def part(dim: int, of: int, share: int = 1) -> int:
    """Return the fraction share/of of the dimensions, as a multiple of 4, which `pq` requires.

    >>> part(384, 2), part(384, 3, share=2), part(312, 8)
    (192, 256, 36)
    """
    return max(dim * share // of // 4 * 4, 4)


def _divisor(dim: int, most: int) -> int:
    return max(m for m in range(1, max(most, 1) + 1) if dim % m == 0)


def _plain(name: str, dim: int, kind: str, rescored: int = 0) -> Method:
    settings = Settings(dim, 0.0, 0.0, kind, rescored, "identity")
    return Method(name, settings, _efforts(rescored))


def _reduced(name: str, like: Settings, k: int, kind: str, rescored: int = 0) -> Method:
    settings = Settings(k, like.beta, like.gamma, kind, rescored, like.reducer)
    return Method(name, settings, _efforts(rescored))


def _efforts(rescored: int) -> tuple[int, ...]:
    return (0, rescored) if rescored else (0,)
