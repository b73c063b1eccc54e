"""Networks of the BERT family in OpenVINO and numpy, against transformers and torch."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import psutil
import pytest
import torch
import transformers
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from slimdex.errors import InputError
from slimdex.retrieval.encoders.model_folder import ACTIVATIONS, SentenceFolder
from slimdex.retrieval.encoders.pooling import PLAIN_MODES, PlainMode, Pooling, Texts, parse_pooling
from slimdex.retrieval.encoders.runtimes.bert import read_network
from slimdex.retrieval.encoders.runtimes.bert_folder import (
    ARCHITECTURES,
    Weights,
    buckets,
)
from slimdex.retrieval.encoders.runtimes.numpy_operations import ACTIVATIONS as NUMPY
from slimdex.retrieval.encoders.runtimes.numpy_operations import encode
from slimdex.retrieval.encoders.runtimes.openvino_operations import (
    OpenVinoTexts,
    openvino_model,
    ops,
)
from slimdex.retrieval.encoders.runtimes.openvino_runtime import Facts, OpenVinoRuntime
from slimdex.retrieval.encoders.runtimes.quick_runtime import QuickRuntime, quick_start
from slimdex.retrieval.encoders.runtimes.torch_runtime import SentenceNetwork
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.system.extras import install_command
from tests.encoders import VOCABULARY, make_tiny_model

Change = Callable[[Path], object]
QUICK = ("bert", "roberta", "distilbert")
SHAPES = ((1, 1), (1, 9), (3, 7), (2, 40))


def batch(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Random ids, also of padding; each text is a token shorter than the one before."""
    ids = np.random.default_rng(1).integers(0, len(VOCABULARY), shape)
    mask = np.ones(shape, dtype=np.int64)
    for i in range(1, len(mask)):
        mask[i, -i:] = 0
    return ids, mask


def differs(model: Any, network: torch.nn.Module) -> float:
    """Largest relative difference between a built network's output and torch's."""
    runtime, worst = OpenVinoRuntime(model, "fp32"), 0.0
    for shape in SHAPES:
        ids, mask = batch(shape)
        (found,) = runtime.run([(ids, mask)])
        with torch.inference_mode():
            exact = network(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
        assert found.shape == exact.shape
        worst = max(worst, float(np.linalg.norm(found - exact) / np.linalg.norm(exact)))
    return worst


def loaded(folder: Path) -> Any:
    return transformers.AutoModel.from_pretrained(folder, dtype="float32").eval()


def tokenizer(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


def vectors_differ(folder: Path, pooling: str = "mean") -> float:
    chosen = parse_pooling(pooling)
    model, facts = built(folder, chosen)
    return differs(model, SentenceNetwork(loaded(folder), chosen, [], facts.dim))


def built(folder: Path, pooling: Pooling) -> tuple[Any, Facts]:
    """The network in OpenVINO, and its facts."""
    parts = read_network(SentenceFolder(folder), pooling)
    assert parts is not None
    return openvino_model(parts[0]), parts[1]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
        for name in ARCHITECTURES
    ],
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def copied_bert(tiny_bert: Path, tmp_path: Path) -> Path:
    """A folder to change."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "copy"))


def test_layers_and_vectors_are_torchs(model: Path) -> None:
    for mode in ("mean", "max", "cls", "last") if model.name.startswith("bert") else ("mean",):
        assert vectors_differ(model, f"{mode}@0,1,2,3") < 1e-5
    assert vectors_differ(model, "max@1,2,-1") < 1e-5
    if loaded(model).config.model_type in ("electra", "distilbert"):
        with pytest.raises(InputError, match="'pooler': the model has no pooler; expected cls"):
            read_network(SentenceFolder(model), Pooling("pooler"))
    else:
        assert vectors_differ(model, "pooler") < 1e-5


@pytest.mark.parametrize(
    "pooling",
    ["mean", "max@1,2,-1", "cls@0", "last", "sqrtmean+weightedmean@0,-1", "pooler"],
)
def test_numpys_vectors_are_those_of_the_graph(tiny_bert: Path, pooling: str) -> None:
    numpy_differs_not(tiny_bert, pooling)


def test_a_mode_added_to_the_table_is_pooled_everywhere(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def squares(texts: Texts, states: Any) -> Any:
        return texts.mean(states * states, texts.pooled)

    monkeypatch.setitem(PLAIN_MODES, "squares", PlainMode("squares", squares))
    numpy_differs_not(tiny_bert, "squares")
    numpy_differs_not(tiny_bert, "squares+cls@1,2")
    assert vectors_differ(tiny_bert, "squares") < 1e-5
    text = "the cat"
    found = TransformerEncoder(str(tiny_bert), pooling="squares", precision="fp32").encode(text)
    tokens = loaded(tiny_bert)(**tokenizer(tiny_bert)(text, return_tensors="pt"))
    expected = tokens.last_hidden_state.square().mean(dim=1).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_numpys_vectors_of_every_architecture(model: Path) -> None:
    numpy_differs_not(model, "max@1,2,-1")


def numpy_differs_not(model: Path, pooling: str) -> None:
    parts = read_network(SentenceFolder(model), parse_pooling(pooling))
    assert parts is not None
    network = parts[0]
    runtime = OpenVinoRuntime(openvino_model(network), "fp32")
    texts = [batch((1, length)) for length in (9, 1, 40, 2)]
    vectors = encode(network, [ids[0] for ids, _ in texts])
    assert vectors.dtype == np.float32
    for text, vector in zip(texts, vectors, strict=True):
        (expected,) = runtime.run([text])
        np.testing.assert_allclose(vector[None], expected, atol=2e-6 * np.abs(expected).max())


def test_weights_are_released_once_a_compiled_network_has_copied_them(tiny_bert: Path) -> None:
    parts = read_network(SentenceFolder(tiny_bert), parse_pooling("mean"))
    assert parts is not None
    calls = list[str]()
    runtime = OpenVinoRuntime(openvino_model(parts[0]), "fp32", lambda: calls.append("released"))
    assert calls == []
    (expected,) = runtime.run([batch((2, 9))])
    assert calls == ["released"]
    parts[0].family.weights.release()
    (again,) = runtime.run([batch((2, 9))])
    np.testing.assert_array_equal(again, expected)
    assert calls == ["released"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems only take this as advice")
def test_released_weights_leave_memory_and_are_read_again(tmp_path: Path) -> None:
    path, values = tmp_path / "model.safetensors", np.arange(1 << 20, dtype=np.float32)
    save_arrays({"table": values}, path)

    def resident() -> int:
        return sum(each.rss for each in psutil.Process().memory_maps() if each.path == str(path))

    weights = Weights([path])
    table = weights["table"]
    np.testing.assert_array_equal(table, values)
    assert resident() >= values.nbytes
    weights.release()
    assert resident() == 0
    np.testing.assert_array_equal(table, values)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_heads_are_torchs(name: str) -> None:
    x = np.linspace(-9, 9, 501, dtype=np.float32)[None]
    expected = getattr(torch.nn, name)()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(NUMPY[name.lower()](x), expected, atol=2e-6)
    given = ops().parameter([-1, -1], np.float32)
    model = openvino.Model([OpenVinoTexts().activate(given, name.lower())], [given])
    (found,) = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x).values()
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("activation", ["gelu_new", "silu"])
def test_activations_of_layers_are_torchs(copied_bert: Path, activation: str) -> None:
    set_config(copied_bert, hidden_act=activation)
    assert vectors_differ(copied_bert) < 1e-5
    exact = TransformerEncoder(str(copied_bert), precision="fp32").encode("the cat")
    with quick_start():
        quick = TransformerEncoder(str(copied_bert), precision="fp32")
    assert isinstance(quick._runtime, QuickRuntime)
    np.testing.assert_allclose(quick.encode("the cat"), exact, atol=1e-6)


def test_distances_have_mpnets_biases() -> None:
    distances = torch.arange(-511, 512)
    expected = MPNetEncoder.relative_position_bucket(distances).numpy()
    np.testing.assert_array_equal(buckets(512, 32), expected)


def set_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def rewritten(folder: Path, rename: Callable[[str], str], dtype: torch.dtype) -> None:
    """Rename a checkpoint's tensors and store them in a type, in two files."""
    path = folder / "model.safetensors"
    tensors = {rename(name): x.to(dtype) for name, x in load_file(path).items()}
    path.unlink()
    index = dict[str, str]()
    for part in (0, 1):
        names = sorted(tensors)[part::2]
        file = f"model-{part}.safetensors"
        save_file({name: tensors[name] for name in names}, folder / file, {"format": "pt"})
        index |= dict.fromkeys(names, file)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index})
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_checkpoints_with_a_head_old_names_and_several_files(
    copied_bert: Path, dtype: torch.dtype
) -> None:
    def old(name: str) -> str:
        name = re.sub(r"(LayerNorm\.)weight", r"\1gamma", name)
        return "bert." + re.sub(r"(LayerNorm\.)bias", r"\1beta", name)

    rewritten(copied_bert, old, dtype)
    assert vectors_differ(copied_bert, "mean@0,-1") < 1e-5


@pytest.mark.parametrize(
    "values",
    [
        {"num_hidden_layers": 4},
        {"num_attention_heads": 0},
        {"pad_token_id": [1]},
    ],
)
def test_configurations_that_do_not_fit_are_refused(
    copied_bert: Path, values: dict[str, Any]
) -> None:
    set_config(copied_bert, **values)
    with pytest.raises(InputError, match="expected a folder with a transformers model"):
        TransformerEncoder(str(copied_bert))


@pytest.mark.parametrize("values", [{"hidden_act": "mish"}, {"is_decoder": True}, {}])
def test_other_structures_and_folders_are_left_to_torch(
    copied_bert: Path, values: dict[str, Any]
) -> None:
    set_config(copied_bert, **values)
    if not values:
        (copied_bert / "tokenizer.json").unlink()
    assert read_network(SentenceFolder(copied_bert), Pooling("mean")) is None


def test_weights_of_another_shape_are_refused(copied_bert: Path) -> None:
    tensors = load_file(copied_bert / "model.safetensors")
    tensors["encoder.layer.0.intermediate.dense.weight"] = torch.zeros(64, 31)
    save_file(tensors, copied_bert / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="expected a folder with a transformers model"):
        TransformerEncoder(str(copied_bert))


@pytest.mark.parametrize(("kind", "pooling"), [("gpt2", "mean@-1"), ("bert", "wk")])
def test_a_model_that_needs_torch_names_the_extra(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, pooling: str
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    folder = make_tiny_model(kind, tmp_path / "m") if kind == "gpt2" else tiny_bert
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError) as error:
        TransformerEncoder(str(folder), pooling=pooling)
    assert str(error.value).endswith(f" requires torch: {install_command('torch')}")


def test_a_built_network_needs_neither_torch_nor_transformers(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = TransformerEncoder(str(tiny_bert), precision="fp32").encode("the cat")
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    encoder = TransformerEncoder(str(tiny_bert), precision="fp32")
    np.testing.assert_array_equal(encoder.encode("the cat"), expected)
