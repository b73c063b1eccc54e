"""Tensor files: safetensors reads them, and the same numbers make the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import safe_open

from slimdex.indexes.tensors import load_tensors, save_tensors

ARRAYS = {"b": np.arange(6.0).reshape(2, 3), "a": np.array([1, 2], dtype=np.float32)}


def test_the_same_numbers_make_the_same_bytes(tmp_path: Path) -> None:
    made = set()
    for i in range(20):  # the library's order changed from call to call
        save_tensors(tmp_path / str(i), "kind é", {"name": "ü", "k": 3}, ARRAYS)
        made.add((tmp_path / str(i)).read_bytes())
    assert len(made) == 1


def test_safetensors_reads_the_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save_tensors(path, "kind é", {"name": "ü", "k": 3}, ARRAYS)
    with safe_open(path, framework="numpy") as file:
        assert file.metadata()["kind"] == "kind é"
        np.testing.assert_array_equal(file.get_tensor("b"), ARRAYS["b"])
    kind, params, arrays = load_tensors(path)
    assert (kind, params) == ("kind é", {"name": "ü", "k": 3})
    assert arrays.keys() == ARRAYS.keys()
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert (int.from_bytes(path.read_bytes()[:8], "little") + 8) % 8 == 0
