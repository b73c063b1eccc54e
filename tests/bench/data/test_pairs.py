from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.data.pairs import Pairs, read_pairs, read_seven, spearman
from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.transformer import TransformerEncoder

DATA = Path(__file__).parents[4] / "shared" / "data" / "sts"


def test_pairs_are_read_with_quotes_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text('sentence1\tsentence2\tscore\tsubtask\n"a b\tc\t4.5\tx\nc\td\t0\ty\n')
    pairs = read_pairs(path, "P")
    assert (pairs.name, pairs.first, pairs.second) == ("P", ['"a b', "c"], ["c", "d"])
    assert (pairs.gold.tolist(), pairs.subtasks) == ([4.5, 0.0], ["x", "y"])
    assert pairs.sentences == ['"a b', "c", "d"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n1\t2\n", "expected columns sentence1, sentence2 and score or label"),
        ("sentence1\tsentence2\tscore\na\tb\tmuch\n", "a score that is no number"),
        ("", "expected columns"),
    ],
)
def test_files_that_are_no_pairs(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_pairs(tmp_path / "p.tsv")
    with pytest.raises(InputError, match="No such file or directory; expected a set of pairs"):
        read_pairs(tmp_path / "nowhere.tsv")


def test_spearman_by_hand_with_ties() -> None:
    vectors = {name: np.array(v, np.float32) for name, v in zip("abcd", EYE, strict=True)}
    pairs = Pairs("x", ["a", "a", "a"], ["b", "c", "d"], np.array([1.0, 2.0, 3.0]), [""] * 3)
    # Cosines 0, 0.6 and 0.6: ranks 1, 2.5, 2.5 against 1, 2, 3.
    assert spearman(pairs, vectors) == pytest.approx(100 * np.sqrt(3) / 2)


EYE = [[1, 0], [0, 2], [3, 4], [0.6, -0.8]]


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no evaluation data in {DATA}")
def test_the_default_precision_costs_nothing() -> None:
    """0.1 at most, on three of the sets; all in fp32 are in `test_similarity_study.py`."""
    in_fp32 = {"STS-B": 82.03, "STS13": 80.60, "STS16": 78.99}
    encoder = TransformerEncoder(pooling="mean")
    found = {}
    for pairs in read_seven(DATA):
        if pairs.name in in_fp32:
            sentences = pairs.sentences
            vectors = dict(zip(sentences, encoder.encode(sentences), strict=True))
            found[pairs.name] = spearman(pairs, vectors)
    assert found.keys() == in_fp32.keys()
    assert np.mean([*found.values()]) == pytest.approx(np.mean([*in_fp32.values()]), abs=0.1)
