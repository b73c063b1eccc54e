"""StaticEncoder: means and SIF against cases by hand and the paper's formulas, folders, indexes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from slimdex import Collection, Document, InputError, StaticEncoder, TransformerEncoder
from slimdex.indexes.arrays import normalize_rows
from slimdex.retrieval.encoders.base import is_same_encoder
from slimdex.retrieval.encoders.opening import encoder_from_spec, is_static, open_encoder
from slimdex.system.progress import listening

from .written_files import glove, some_vectors

WORDS = ["the", "cat", "sat", "on", "mat", ".", "dog", "n't", "do", "rain"]
TEXTS = ["The cat sat on the mat.", "A dog, a cat", "don't rain", "rain rain", "the"]
TOKENS = [
    ["the", "cat", "sat", "on", "the", "mat", "."],
    ["dog", "cat"],
    ["do", "n't", "rain"],
    ["rain", "rain"],
    ["the"],
]
VECTORS = some_vectors(len(WORDS), 6)
ROW = dict(zip(WORDS, VECTORS.astype(np.float64), strict=True))


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return glove(tmp_path / "glove", WORDS, VECTORS)


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The folder of the packaged model: a real vocabulary and real vectors of its tokens."""
    from slimdex.retrieval.encoders.models import find_model

    return find_model("all-MiniLM-L6-v2").folder


@pytest.fixture(scope="module")
def folder(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As model2vec writes one, of MiniLM's own input vectors, in float16."""
    path = tmp_path_factory.mktemp("model2vec")
    rows = load_file(minilm / "model.safetensors")["embeddings.word_embeddings.weight"]
    save_file({"embeddings": rows[:, :64].astype(np.float16)}, path / "model.safetensors")
    shutil.copy(minilm / "tokenizer.json", path)
    (path / "config.json").write_text('{"model_type": "model2vec", "normalize": true}')
    return path


def test_the_mean_by_hand(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("cat 1 0\ndog 0 1\n, 4 4\n")
    encoder = StaticEncoder(tmp_path / "v.txt")
    assert encoder.encode(["Cat dog cat yes", "cat,dog", "yes", ""]).tolist() == [
        [np.float32(2 / 3), np.float32(1 / 3)],
        [np.float32(5 / 3), np.float32(5 / 3)],
        [0, 0],
        [0, 0],
    ]
    assert encoder.encode("dog").tolist() == [[0, 1]]
    assert encoder.encode([]).shape == (0, 2)
    assert encoder.token_counts(["cat,dog", "no"]) == [3, 0]


def test_capitals_count_where_there_are_any(tmp_path: Path) -> None:
    encoder = StaticEncoder(glove(tmp_path / "v", ["Apple", "apple"], np.eye(2, dtype=np.float32)))
    assert encoder.encode(["Apple", "apple", "APPLE"]).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_long_texts_are_cut_only_if_that_is_asked(words: Path, tmp_path: Path) -> None:
    encoder = StaticEncoder(words)
    expected = [np.mean([ROW[word] for word in tokens], axis=0) for tokens in TOKENS]
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-6)
    assert encoder.token_counts([*TEXTS, ""]) == [*map(len, TOKENS), 0]
    long = [Document("long", "The cat sat on the mat. " * 9), Document("short", "rain")]
    with Collection.create(tmp_path / "whole", encoder) as collection:
        collection.add(long)
        assert (collection.index.state.passages, collection.index.state.rows) == (None, 2)
    with Collection.create(tmp_path / "cut", encoder, passages=16) as collection:
        collection.add(long)
        spans = collection.get("long").passages
        assert collection.index.state.rows == len(spans) + 1 > 4
        found = [long[0].text[start:end] for start, end in spans]
        assert max(encoder.token_counts(found)) <= 16


def sif_oracle(p: dict[str, float], a: float, component: bool) -> Any:
    """Arora et al. 2017, algorithm 1, as it is written: X has a sentence in each column."""
    v = np.array(
        [sum(a / (a + p.get(w, 0)) * ROW[w] for w in tokens) / len(tokens) for tokens in TOKENS]
    )
    if not component:
        return v
    u = np.linalg.svd(v.T, full_matrices=False)[0][:, 0]
    return v - v @ np.outer(u, u)


def test_sif_is_the_papers(words: Path) -> None:
    seen = [word for tokens in TOKENS for word in tokens]
    p = {word: seen.count(word) / len(seen) for word in WORDS}
    encoder = StaticEncoder(words).fitted(iter(TEXTS))
    np.testing.assert_allclose(encoder.encode(TEXTS), sif_oracle(p, 1e-3, True), atol=1e-5)


def test_sif_by_frequencies_of_others(words: Path, tmp_path: Path) -> None:
    counts = {"the": 60.0, "cat": 30.0, "unheard": 5.0, "rain": 10.0}
    p = {word: count / 100 for word, count in counts.items()}  # those of known words
    (tmp_path / "counts").write_text("the\t60\ncat 30\nunheard 5\n\nrain 10.0\n")
    for given_ in (counts, tmp_path / "counts"):
        alone = StaticEncoder(words).fitted(frequencies=given_)
        np.testing.assert_allclose(alone.encode(TEXTS), sif_oracle(p, 1e-3, False), atol=1e-5)
        both = StaticEncoder(words).fitted(TEXTS, frequencies=given_)
        np.testing.assert_allclose(both.encode(TEXTS), sif_oracle(p, 1e-3, True), atol=1e-5)


def test_sif_by_zipfs_law(words: Path) -> None:
    total = sum(1 / rank for rank in range(2, len(WORDS) + 2))
    p = {word: 1 / (i + 2) / total for i, word in enumerate(WORDS)}
    encoder = StaticEncoder(words, pooling="sif")
    np.testing.assert_allclose(encoder.encode(TEXTS), sif_oracle(p, 1e-3, False), atol=1e-5)
    assert encoder.spec()["pooling"] == "sif"


@pytest.mark.parametrize("line", ["the", "the x", "the -1", "the 1e5", "the nan", " 5"])
def test_bad_frequencies(words: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "counts").write_bytes(b"cat 1\n" + line.encode("latin-1") + b"\n")
    with pytest.raises(InputError, match=r"counts: line 2: .*expected"):
        StaticEncoder(words).fitted(frequencies=tmp_path / "counts")


@pytest.mark.parametrize("pooling", [None, "mean", "sif", "fitted"])
def test_what_is_saved_gives_the_same_vectors(
    words: Path, tmp_path: Path, pooling: str | None
) -> None:
    encoder = (
        StaticEncoder(words).fitted(TEXTS)
        if pooling == "fitted"
        else StaticEncoder(words, pooling=pooling)
    )
    saved = encoder.save(tmp_path / "out")
    np.testing.assert_array_equal(saved.encode(TEXTS), encoder.encode(TEXTS))
    if pooling == "fitted":
        assert encoder.spec()["model"] is None
        assert is_same_encoder(encoder.spec(), saved.spec())
    again = saved.save(tmp_path / "again")
    assert is_same_encoder(again.spec(), saved.spec())
    with pytest.raises(InputError, match="out exists; expected a new folder"):
        saved.save(tmp_path / "out")
    with pytest.raises(InputError, match=r"no folder .*none; expected an existing one"):
        saved.save(tmp_path / "none" / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "glove.txt", "out"]


SENTENCES = [
    "Hello, World! It's a test — naïve café, 日本語 text...",
    "tab\there\nand newline  two spaces",
    "don't U.S.A. 3.14 #tag @user http://x.y/z?q=1",
    "[MASK] ##ing [UNK] unaffable",
    " leading",
    "",
    "x" * 300,
]


def test_a_folder_of_model2vec(folder: Path) -> None:
    """The mean of the rows that the tokenizer says, of unit length; what is unknown left out."""
    encoder = StaticEncoder(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = load_file(folder / "model.safetensors")["embeddings"].astype(np.float64)
    tokenizer.no_padding()
    unknown = tokenizer.token_to_id("[UNK]")
    for text, vector in zip(SENTENCES, encoder.encode(SENTENCES), strict=True):
        ids = [i for i in tokenizer.encode(text, add_special_tokens=False).ids if i != unknown]
        expected = rows[ids].mean(axis=0) if ids else np.zeros(64)
        expected /= np.linalg.norm(expected) or 1
        np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_weights_and_a_mapping(tmp_path: Path, folder: Path) -> None:
    """As newer releases of model2vec write them."""
    rng = np.random.default_rng(1)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = tokenizer.get_vocab_size()
    rows, weights = some_vectors(100, 8), rng.random(tokens).astype(np.float32)
    mapping = rng.integers(0, 100, tokens)
    arrays: dict[str, Any] = {"embeddings": rows, "weights": weights, "mapping": mapping}
    save_file(arrays, tmp_path / "model.safetensors")
    shutil.copy(folder / "tokenizer.json", tmp_path)
    tokenizer.no_padding()
    ids = tokenizer.encode("a white cat", add_special_tokens=False).ids
    expected = np.mean([weights[i] * rows[mapping[i]] for i in ids], axis=0)
    encoder = StaticEncoder(tmp_path)
    np.testing.assert_allclose(encoder.encode("a white cat")[0], expected, atol=1e-6)
    saved = encoder.save(tmp_path / "saved")
    np.testing.assert_array_equal(saved.encode(SENTENCES), encoder.encode(SENTENCES))
    plain = StaticEncoder(tmp_path, pooling="mean").encode("a white cat")[0]
    np.testing.assert_allclose(plain, rows[mapping[ids]].mean(axis=0), atol=1e-6)


def test_a_matrix_with_more_rows_than_tokens(tmp_path: Path, folder: Path) -> None:
    """In a vocabulary that is padded or has gaps, some rows belong to no token."""
    rows = load_file(folder / "model.safetensors")["embeddings"]
    padded = np.concatenate([rows, np.ones((38, rows.shape[1]), rows.dtype)])
    shutil.copytree(folder, tmp_path / "padded")
    save_file({"embeddings": padded}, tmp_path / "padded" / "model.safetensors")
    encoder = StaticEncoder(tmp_path / "padded")
    np.testing.assert_array_equal(
        encoder.encode(SENTENCES), StaticEncoder(folder).encode(SENTENCES)
    )
    for name, each in (("mean", encoder), ("fitted", encoder.fitted(SENTENCES))):
        saved = each.save(tmp_path / name)
        np.testing.assert_array_equal(saved.encode(SENTENCES), each.encode(SENTENCES))


def test_model2vec_reads_and_is_read(tmp_path: Path, folder: Path, words: Path) -> None:
    model2vec = pytest.importorskip("model2vec", reason="model2vec is not installed")
    for encoder in (
        StaticEncoder(folder),
        StaticEncoder(folder).fitted(SENTENCES),
        StaticEncoder(words).fitted(TEXTS),
    ):
        saved = encoder.save(tmp_path / f"{len(list(tmp_path.iterdir()))}")
        place = saved.spec()["model"]
        theirs = model2vec.StaticModel.from_pretrained(place)
        texts = [*SENTENCES, *TEXTS]
        np.testing.assert_allclose(theirs.encode(texts), saved.encode(texts), atol=1e-6)
        theirs.save_pretrained(f"{place}-theirs")
        back = StaticEncoder(f"{place}-theirs")
        np.testing.assert_allclose(back.encode(texts), saved.encode(texts), atol=1e-6)


def test_long_texts_are_read_to_their_end(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = StaticEncoder(words)
    texts = ["cat " * 50 + "dog", "rain", "cat dog"]
    expected = encoder.encode(texts)
    np.testing.assert_allclose(expected[0], (50 * ROW["cat"] + ROW["dog"]) / 51, atol=1e-5)
    monkeypatch.setattr("slimdex.retrieval.encoders.sparse_rows.AT_ONCE", 18)
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)


BAD_ARRAYS: dict[str, dict[str, Any]] = {
    "few rows": {"embeddings": np.ones((5, 2), np.float32)},
    "flat": {"embeddings": np.ones(12, np.float32)},
    "few weights": {
        "embeddings": np.ones((12, 2), np.float32),
        "weights": np.ones(3, np.float32),
    },
    "mapping": {"embeddings": np.ones((12, 2), np.float32), "mapping": np.full(12, 12)},
}
BAD_FILES = {
    "tokenizer.json": "{}",
    "config.json": "[",
    "modules.json": '[{"type": "x.StaticEmbedding"}, {"type": "x.Dense"}]',
    "model.safetensors": "x" * 20,
}
MISSING = {"no tokenizer": "tokenizer.json", "no weights": "model.safetensors"}


@pytest.mark.parametrize("name", [*BAD_ARRAYS, *BAD_FILES, *MISSING])
def test_a_folder_with_a_bad_file_is_refused(tmp_path: Path, words: Path, name: str) -> None:
    folder = tmp_path / "m"
    StaticEncoder(words).save(folder)
    if name in BAD_ARRAYS:
        save_file(BAD_ARRAYS[name], folder / "model.safetensors")
    elif name in BAD_FILES:
        (folder / name).write_text(BAD_FILES[name])
    else:
        (folder / MISSING[name]).unlink()
    with pytest.raises(InputError, match=MISSING.get(name, "expected")):
        StaticEncoder(folder)


def test_what_is_opened_is_what_the_path_holds(tiny_bert: Path, words: Path, folder: Path) -> None:
    assert isinstance(open_encoder(str(words), pooling="sif"), StaticEncoder)
    assert isinstance(open_encoder(str(folder), precision="fp32"), StaticEncoder)
    assert isinstance(open_encoder(str(tiny_bert), max_length=16), TransformerEncoder)
    assert not is_static(str(tiny_bert))
    for place in (words.parent, words.parent / "none"):
        with pytest.raises(InputError):
            open_encoder(str(place))


def test_an_index_opens_again_by_itself(words: Path, tmp_path: Path) -> None:
    documents = [Document(str(i), one) for i, one in enumerate([*TEXTS, "zzz", ""])]
    with Collection.create(tmp_path / "i", StaticEncoder(words)) as made:
        made.add(documents)
    with Collection.open(tmp_path / "i") as opened:
        assert opened.search("rain", limit=1)[0].id == "3"
        scores = {hit.id: hit.score for hit in opened.search("rain", limit=9)}
        assert np.isfinite([*scores.values()]).all()
        assert scores.get("5", 0) == 0  # no word of it is known
        assert len(opened.search("qqq", limit=3)) == 3
        assert opened.verify() == []
    words.rename(tmp_path / "moved.txt")
    with pytest.raises(InputError, match=r"if it has moved, record its place"):
        Collection.open(tmp_path / "i").search("rain")
    with Collection.open(tmp_path / "i") as opened:
        opened.move_model(str(tmp_path / "moved.txt"))
    with Collection.open(tmp_path / "i") as opened:
        assert opened.search("rain", limit=1)[0].id == "3"
    other = glove(tmp_path / "other", WORDS, VECTORS + 1)
    with pytest.raises(InputError, match=r"has sha256 .*; the index was built with"):
        Collection.open(tmp_path / "i", model=str(other)).search("rain")


def test_an_index_of_a_fitted_encoder(words: Path, tmp_path: Path) -> None:
    encoder = StaticEncoder(words).fitted(TEXTS)
    with Collection.create(tmp_path / "i", encoder) as made:
        made.add([Document(str(i), one) for i, one in enumerate(TEXTS)])
    with pytest.raises(InputError, match="with a StaticEncoder that was fitted: pass it to open"):
        Collection.open(tmp_path / "i").search("rain")
    encoder.save(tmp_path / "saved")
    with Collection.open(tmp_path / "i") as opened:
        opened.move_model(str(tmp_path / "saved"))
    with Collection.open(tmp_path / "i", StaticEncoder(tmp_path / "saved")) as opened:
        assert opened.search("rain", limit=1)[0].id == "3"
    assert isinstance(
        encoder_from_spec(encoder.spec(), model=str(tmp_path / "saved")), StaticEncoder
    )


def expected_distilled(model: Path, dim: int) -> tuple[list[str], Any]:
    """Tokens and rows by transformers and numpy alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModel.from_pretrained(model).eval()
    special = {"[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"}
    tokens = sorted(
        set(tokenizer.get_vocab()) - special, key=lambda token: tokenizer.get_vocab()[token]
    )
    rows = []
    for token in tokens:
        ids = [tokenizer.cls_token_id, tokenizer.get_vocab()[token], tokenizer.sep_token_id]
        with torch.no_grad():
            rows.append(network(torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy())
    x = np.array(rows, dtype=np.float64)
    x -= x.mean(axis=0)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return tokens, (u * s)[:, :dim]


def test_distilled_vectors_are_model2vecs(tiny_bert: Path, tmp_path: Path) -> None:
    from slimdex.retrieval.encoders.distillation import distill

    dim = 8
    said: list[tuple[str, int, int]] = []
    with listening(lambda *at: said.append(at)):
        encoder = distill(str(tiny_bert), tmp_path / "d", dim=dim)
    tokens, rows = expected_distilled(tiny_bert, dim)
    assert said[-1] == ("distilling", len(tokens), len(tokens))
    weights = 1e-4 / (
        1e-4
        + 1 / np.arange(2, len(tokens) + 2) / sum(1 / rank for rank in range(2, len(tokens) + 2))
    )
    ours = load_file(tmp_path / "d" / "model.safetensors")
    assert ours["embeddings"].shape == (len(tokens) + 1, dim)  # and the unknown one
    np.testing.assert_allclose(np.abs(ours["embeddings"][1:]), np.abs(rows), atol=1e-3)
    np.testing.assert_allclose(ours["weights"][1:], weights, rtol=1e-5)
    vocabulary = json.loads((tmp_path / "d" / "tokenizer.json").read_text())["model"]["vocab"]
    assert [*vocabulary] == ["[UNK]", *tokens]
    pair = [tokens.index("cat"), tokens.index("dog")]
    signed = ours["embeddings"][1:][pair] * weights[pair, None]
    expected = normalize_rows(signed.mean(axis=0, keepdims=True).astype(np.float32))
    np.testing.assert_allclose(encoder.encode("Cat dog"), expected, atol=1e-5)
    distill(str(tiny_bert), tmp_path / "again", dim=dim)
    again = load_file(tmp_path / "again" / "model.safetensors")["embeddings"]
    np.testing.assert_allclose(again, ours["embeddings"], atol=1e-4)


def test_word_vectors_are_distilled_too(words: Path, tmp_path: Path) -> None:
    from slimdex.retrieval.encoders.distillation import distill

    made = distill(str(words), tmp_path / "d", texts=TEXTS)
    assert is_same_encoder(made.spec(), StaticEncoder(words).fitted(TEXTS).spec())
    small = distill(str(words), tmp_path / "small", dim=3)
    assert small.encode(TEXTS).shape == (len(TEXTS), 3)
    for dim, expected in ((7, "dim=7; expected 1 to the model's 6"), (0, "dim=0; expected 1 or")):
        with pytest.raises(InputError, match=re.escape(expected)):
            distill(str(words), tmp_path / "none", dim=dim)
    assert not (tmp_path / "none").exists()
