"""An index keeps the precision of its vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.base import as_recorded, is_same_encoder
from slimdex.retrieval.encoders.transformer import TransformerEncoder, encoder_from_spec

TEXTS = [f"the {word} {i}" for i, word in enumerate(["cat", "dog"] * 20)]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_an_index_is_searched_in_the_precision_that_it_was_built_in(
    tiny_bert: Path, tmp_path: Path, precision: str
) -> None:
    documents = [{"id": str(i), "text": text} for i, text in enumerate(TEXTS)]
    recorded, other = (
        TransformerEncoder(str(tiny_bert), precision=name)
        for name in (precision, "int8" if precision == "fp32" else "fp32")
    )
    with Collection.create(tmp_path / "i", recorded, Settings(kind="fp16")) as collection:
        collection.add(documents[:30])
        spec = collection.info()["encoder"]
    for encoder in (None, other):
        with Collection.open(tmp_path / "i", encoder) as collection:
            collection.add(documents[30:])
            assert collection.info()["encoder"] == spec
            assert isinstance(collection.encoder, TransformerEncoder)
            assert collection.encoder.precision == spec["precision"] == precision
            rows = collection.index.snapshot.vectors().take(np.arange(40))
    difference = np.abs(rows - recorded.encode(TEXTS)).max()
    assert difference < np.abs(rows - other.encode(TEXTS)).max()


def test_a_spec_names_the_precision_of_its_vectors(tiny_bert: Path) -> None:
    auto = TransformerEncoder(str(tiny_bert))
    coarse = auto.in_precision("int8")
    assert encoder_from_spec(coarse.spec()).precision == "int8"
    assert is_same_encoder(coarse.spec(), auto.spec())
    assert not is_same_encoder(coarse.spec(), auto.spec() | {"max_length": 5})
    assert as_recorded(auto, coarse.spec()).spec() == coarse.spec()
    assert auto.in_precision(auto.precision) is auto
