"""Kept conversions: the second process needs no torch, and a damaged cache does no harm."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.runtimes.network_loader import conversion_key, load_conversion
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.encoders import make_tiny_model

TEXTS = ["the cat", "a dog in the rain", ""]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is converted from torch."""
    return make_tiny_model("deberta-v2", tmp_path_factory.mktemp("deberta"))


@pytest.fixture(scope="module")
def made(converted: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Matrix]:
    """A cache that holds its conversion, and the vectors of `TEXTS`."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SLIMDEX_CACHE", str(cache))
        return cache, TransformerEncoder(str(converted), precision="fp32").encode(TEXTS)


@pytest.fixture
def cache(
    made: tuple[Path, Matrix], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Matrix]:
    """A copy of them."""
    shutil.copytree(made[0], tmp_path / "cache")
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache", made[1]


@pytest.mark.slow
def test_the_second_time_needs_neither_torch_nor_transformers(
    converted: Path, cache: tuple[Path, Matrix]
) -> None:
    folder, vectors = cache
    code = (
        "import sys, numpy\n"
        "from slimdex.retrieval.encoders.transformer import TransformerEncoder\n"
        f"encoder = TransformerEncoder({str(converted)!r}, precision='fp32')\n"
        f"numpy.save({str(folder / 'out.npy')!r}, encoder.encode({TEXTS!r}))\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    np.testing.assert_allclose(np.load(folder / "out.npy"), vectors, atol=1e-6)


def test_the_key_depends_on_weights_pooling_and_folder(tiny_bert: Path, tmp_path: Path) -> None:
    key = conversion_key(tiny_bert, "ab", "mean@-1")
    others = [
        conversion_key(tiny_bert, "ac", "mean@-1"),
        conversion_key(tiny_bert, "ab", "cls@-1"),
        conversion_key(tmp_path, "ab", "mean@-1"),
    ]
    assert len({key, *others}) == 4
    assert conversion_key(tiny_bert, "ab", "mean@-1") == key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.bin", "facts.json", "tokenizer.json", "model.xml"])
def test_a_damaged_cache_is_thrown_away(cache: tuple[Path, Matrix], name: str) -> None:
    (folder,) = cache[0].iterdir()
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1  # of the same length, and readable all the same
    (folder / name).write_bytes(data)
    assert load_conversion(folder.name) is None
    assert not folder.exists()


@pytest.mark.slow
def test_a_cache_that_can_not_be_written_is_done_without(
    converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "file"))
    assert TransformerEncoder(str(converted)).encode(["dog"]).shape == (1, 32)
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / ("x" * 300)))
    assert load_conversion("key") is None


@pytest.mark.slow
def test_a_failed_conversion_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    folder = make_tiny_model("gpt2", tmp_path / "gpt2")
    first = TransformerEncoder(str(folder), precision="fp32").encode(TEXTS)
    again = TransformerEncoder(str(folder), precision="fp32").encode(TEXTS)
    np.testing.assert_array_equal(first, again)
    names = [path.suffixes for path in (tmp_path / "cache").iterdir()]
    assert names == [[".refused", ".json"]]
    with pytest.raises(InputError, match="precision='int8'"):
        TransformerEncoder(str(folder), precision="int8")
