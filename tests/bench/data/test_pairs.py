from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from slimdex.bench.data.pairs import Pairs, read_pairs, read_seven, spearman
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.chance import CHANCE, sweep

DATA = Path(__file__).parents[4] / "shared" / "data" / "sts"


def test_pairs_are_read_with_quotes_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text('sentence1\tsentence2\tscore\tsubtask\n"a b\tc\t4.5\tx\nc\td\t0\ty\n')
    pairs = read_pairs(path, "P")
    assert (pairs.name, pairs.first, pairs.second) == ("P", ['"a b', "c"], ["c", "d"])
    assert (pairs.gold.tolist(), pairs.subtasks) == ([4.5, 0.0], ["x", "y"])
    assert pairs.sentences == ['"a b', "c", "d"]


def test_spearman_by_hand_with_ties() -> None:
    vectors = {name: np.array(v, np.float32) for name, v in zip("abcd", EYE, strict=True)}
    pairs = Pairs("x", ["a", "a", "a"], ["b", "c", "d"], np.array([1.0, 2.0, 3.0]))
    # Cosines 0, 0.6 and 0.6: ranks 1, 2.5, 2.5 against 1, 2, 3.
    assert spearman(pairs, vectors) == pytest.approx(100 * np.sqrt(3) / 2)


EYE = [[1, 0], [0, 2], [3, 4], [0.6, -0.8]]


IN_FP32 = {
    "STS-B": 82.03,
    "SICK-R": 77.15,
    "STS12": 72.37,
    "STS13": 80.60,
    "STS14": 75.59,
    "STS15": 85.39,
    "STS16": 78.99,
}
"""all-MiniLM-L6-v2's, by a script of others; also as published (MTEB)."""
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no evaluation data in {DATA}")


@pytest.mark.shared
@needs_data
def test_the_sets_are_whole_and_in_their_own_case() -> None:
    """Counts of pairs as published; Su et al. fit on train and dev of STS-B and SICK-R, too."""
    sets = read_seven(DATA)
    counts = {"STS-B": 1379, "SICK-R": 4927, "STS12": 3108, "STS13": 1500, "STS14": 3750}
    counts |= {"STS15": 3000, "STS16": 1186}
    assert {pairs.name: len(pairs.gold) for pairs in sets} == counts
    others = {pairs.name: len(pairs.others) // 2 for pairs in sets if pairs.others}
    assert others == {"STS-B": 5749 + 1500, "SICK-R": 4500 + 500}
    subtasks = {p.name: len(set(p.subtasks)) for p in sets if len(p.protocols) > 1}
    assert subtasks == {"STS12": 5, "STS13": 3, "STS14": 6, "STS15": 5, "STS16": 5}
    cased = {pairs.name for pairs in sets if any(s != s.lower() for s in pairs.first)}
    assert cased == counts.keys() - {"STS12"}


def encoded(encoder: TransformerEncoder, pairs: Pairs) -> dict[str, NDArray[np.float32]]:
    return dict(zip(pairs.sentences, encoder.encode(pairs.sentences), strict=True))


@pytest.mark.slow
@pytest.mark.shared
@needs_data
def test_the_default_precision_costs_nothing() -> None:
    """0.1 at most, on three of the sets."""
    encoder = TransformerEncoder(pooling="mean")
    sets = [pairs for pairs in read_seven(DATA) if pairs.name in ("STS-B", "STS13", "STS16")]
    found = [spearman(pairs, encoded(encoder, pairs)) for pairs in sets]
    expected = [IN_FP32[pairs.name] for pairs in sets]
    assert np.mean(found) == pytest.approx(np.mean(expected), abs=0.1)


@sweep
@pytest.mark.shared
@needs_data
def test_figures_are_those_published() -> None:
    encoder = TransformerEncoder(precision="fp32", max_length=128, pooling="mean")
    for pairs in CHANCE.sample(read_seven(DATA), 1):
        found = spearman(pairs, encoded(encoder, pairs))
        assert found == pytest.approx(IN_FP32[pairs.name], abs=0.02), pairs.name
