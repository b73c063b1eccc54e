"""Token tables: sparse products and ridge regression against numpy, and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.tensors import load_tensors, save_tensors
from slimdex.retrieval.encoders import sparse_rows, tokens
from slimdex.retrieval.encoders.pieces import word_tokenizer
from slimdex.retrieval.encoders.sparse_rows import SparseRows
from slimdex.retrieval.encoders.token_table import fit_table, load_table, ridge, save_table
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder

WORDS = [f"word{i}" for i in range(30)]
DEFINITION = word_tokenizer(WORDS).to_str()


def sparse(seed: int, n: int, columns: int, share: float = 0.3) -> tuple[SparseRows, Matrix]:
    """A random sparse matrix, and the same as an array."""
    rng = np.random.default_rng(seed)
    is_entry = rng.random((n, columns)) < share
    dense: Matrix = (rng.normal(size=(n, columns)) * is_entry).astype(np.float32)
    rows, places = np.nonzero(dense)
    return SparseRows(np.bincount(rows, minlength=n), places, dense[rows, places]), dense


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 9), st.integers(1, 5))
@settings(deadline=None)
def test_sparse_products_are_those_of_arrays(seed: int, n: int, columns: int, d: int) -> None:
    rows, dense = sparse(seed, n, columns)
    other = np.random.default_rng(seed).normal(size=(columns, d)).astype(np.float32)
    np.testing.assert_allclose(rows.times(other), dense @ other, rtol=1e-4, atol=1e-5)
    back = rows.transposed(columns).times(np.eye(n, dtype=np.float32))
    np.testing.assert_array_equal(back, dense.T)
    unit = rows.normalized().times(np.eye(columns, dtype=np.float32))
    np.testing.assert_allclose(unit, normalize_rows(dense), rtol=1e-5, atol=1e-6)


def test_a_long_row_is_summed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_rows, "AT_ONCE", 12)
    rows, dense = sparse(0, 7, 40, share=0.6)
    other = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    np.testing.assert_allclose(rows.times(other), dense @ other, rtol=1e-4, atol=1e-5)


def test_many_steps_solve_the_normal_equations() -> None:
    rows, dense = sparse(3, 40, 25)
    Y = np.random.default_rng(4).normal(size=(40, 6)).astype(np.float32)
    exact = np.linalg.solve(dense.T @ dense + 0.3 * np.eye(25), dense.T @ Y)
    np.testing.assert_allclose(ridge(rows, 25, Y, 0.3, 60), exact, rtol=1e-3, atol=1e-4)
    # The default's few steps come near, from zero.
    assert np.linalg.norm(ridge(rows, 25, Y) - exact) < 0.5 * np.linalg.norm(exact)


def texts_and_vectors(count: int = 400) -> tuple[list[str], Matrix, Matrix]:
    """Random texts; vectors that are sums of words' directions; and these directions."""
    rng = np.random.default_rng(5)
    directions = rng.normal(size=(len(WORDS), 16)).astype(np.float32)
    chosen = [rng.integers(0, len(WORDS) - 1, rng.integers(2, 9)) for _ in range(count)]
    texts = [" ".join(WORDS[i] for i in each) for each in chosen]
    return texts, np.stack([directions[each].sum(axis=0) for each in chosen]), directions


def test_queries_are_encoded_nearly_as_by_the_encoder() -> None:
    texts, vectors, directions = texts_and_vectors()
    table = StaticEncoder.of(fit_table(DEFINITION, texts, vectors))
    query = table.encode_queries("word3 word8")
    truth = normalize_rows((directions[3] + directions[8])[None])
    assert float(query[0] @ truth[0]) > 0.9
    # A token that no text has, and an unknown word, are left out.
    more = table.encode_queries("word29 word3 zebra word8")
    np.testing.assert_allclose(more, query, atol=1e-6)
    assert not table.encode_queries("word29 zebra").any()


def test_scale_of_vectors_and_order_of_texts_do_not_matter() -> None:
    texts, vectors, _ = texts_and_vectors(50)
    one = StaticEncoder.of(fit_table(DEFINITION, texts, vectors)).encode(texts)
    order = np.random.default_rng(0).permutation(50)
    scaled = vectors[order] * np.linspace(1, 9, 50, dtype=np.float32)[:, None]
    other = StaticEncoder.of(fit_table(DEFINITION, [texts[i] for i in order], scaled))
    np.testing.assert_allclose(other.encode(texts), one, atol=1e-4)


def test_texts_are_tokenized_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, vectors, _ = texts_and_vectors(50)
    texts[9] = "zebra"  # the last of a group has no known word
    whole = StaticEncoder.of(fit_table(DEFINITION, texts, vectors)).encode(texts)
    monkeypatch.setattr(tokens, "GROUP_TEXTS", 10)
    parts = StaticEncoder.of(fit_table(DEFINITION, texts, vectors)).encode(texts)
    np.testing.assert_allclose(parts, whole, atol=1e-6)


def test_a_table_comes_back_from_its_file(tmp_path: Path) -> None:
    texts, vectors, _ = texts_and_vectors(50)
    table = fit_table(DEFINITION, texts, vectors)
    save_table(tmp_path / "t", table)
    loaded = load_table(tmp_path / "t", 16)
    written = StaticEncoder.of(table).encode(texts)
    np.testing.assert_allclose(loaded.encode(texts), written, atol=2e-3)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    texts, vectors, _ = texts_and_vectors(20)
    path = tmp_path / "t"
    save_table(path, fit_table(DEFINITION, texts, vectors))
    with pytest.raises(CorruptError):
        load_table(path, 17)
    kind, _, arrays = load_tensors(path)
    for name, changed in {
        "tokens": arrays["tokens"] + np.int32(10_000),
        "tokenizer": arrays["tokenizer"][:9],
        "weights": arrays["weights"][1:],
    }.items():
        save_tensors(tmp_path / name, kind, {}, arrays | {name: changed})
        with pytest.raises(CorruptError):
            load_table(tmp_path / name, 16)
    save_tensors(tmp_path / "kind", "rescorer", {}, arrays)
    with pytest.raises(CorruptError):
        load_table(tmp_path / "kind", 16)
