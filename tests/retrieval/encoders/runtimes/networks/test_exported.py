"""Networks in ONNX or as OpenVINO models, against the torch networks they were made from."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import openvino
import pytest
import torch
import transformers

from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.transformer import TransformerEncoder, encoder_from_spec
from tests.encoders import make_tiny_model

TEXTS = ["the cat", "rain rain the dog and the cat", ""]


class Hidden(torch.nn.Module):
    """The last hidden state, as exporters name it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(
            input_ids=input_ids, attention_mask=attention_mask
        ).last_hidden_state
        return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is not of BERT's family."""
    return make_tiny_model("squeezebert", tmp_path_factory.mktemp("squeezebert"))


@pytest.fixture(scope="module", params=["onnx", "openvino"])
def folder(
    request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Its folder, with the network in a format instead of weights."""
    made = tmp_path_factory.mktemp(request.param)
    shutil.copytree(source, made, dirs_exist_ok=True)
    (made / "model.safetensors").unlink()
    (made / request.param).mkdir()
    network = Hidden(transformers.AutoModel.from_pretrained(source).eval())
    example = (torch.full((2, 5), 7), torch.ones((2, 5), dtype=torch.int64))
    names = ("input_ids", "attention_mask")
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns about every shape
        if request.param == "onnx":
            axes = {name: {0: "batch", 1: "length"} for name in (*names, "last_hidden_state")}
            torch.onnx.export(
                network,
                example,
                str(made / "onnx" / "model.onnx"),
                input_names=list(names),
                output_names=["last_hidden_state"],
                dynamic_axes=axes,
                opset_version=18,
                dynamo=False,
            )
        else:
            traced = torch.jit.trace(network, example, check_trace=False)
            model = openvino.convert_model(traced, example_input=example)
            for port, name in zip(model.inputs, names, strict=True):
                port.get_tensor().set_names({name})
            openvino.save_model(model, made / "openvino" / "openvino_model.xml", False)
    return made


def test_vectors_are_those_of_the_weights(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = TransformerEncoder(str(source), precision="fp32").encode(TEXTS)
    monkeypatch.setitem(sys.modules, "torch", None)
    encoder = TransformerEncoder(str(folder), precision="fp32")
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    assert (encoder.dim, encoder.layers, encoder.max_length) == (32, 3, 64)
    assert encoder.runtime == "OpenVINO on cpu, fp32"
    again = encoder_from_spec(encoder.spec())
    np.testing.assert_allclose(again.encode_queries(TEXTS), expected, atol=1e-5)
    with pytest.raises(InputError, match=r"no model\.safetensors in that folder"):
        TransformerEncoder(str(folder), pooling="wk")


def test_other_weights_are_noticed(folder: Path, tmp_path: Path) -> None:
    spec = TransformerEncoder(str(folder)).spec()
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    file = next(path for path in tmp_path.rglob("*") if path.suffix in (".bin", ".onnx"))
    data = bytearray(file.read_bytes())
    data[-200] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match="has sha256"):
        encoder_from_spec(spec, model=str(tmp_path))


def test_files_that_are_no_encoder(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (file,) = [path for path in tmp_path.rglob("*") if path.suffix in (".xml", ".onnx")]
    ops = openvino.opset13
    given = ops.parameter([-1, -1], np.int64, name="other")
    vectors = ops.unsqueeze(ops.convert(given, "f32"), ops.constant(2))
    for data in (b"", b"junk"):
        file.write_bytes(data)
        with pytest.raises(InputError, match="expected a folder with a transformers model"):
            TransformerEncoder(str(tmp_path))
    if file.suffix == ".xml":
        openvino.save_model(openvino.Model([vectors], [given]), file, False)
        with pytest.raises(InputError, match="inputs other; expected some of input_ids"):
            TransformerEncoder(str(tmp_path))


def test_token_types_and_positions_are_filled(folder: Path, tmp_path: Path) -> None:
    """A made-up network whose hidden state is the sum of its inputs."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for name in ("onnx", "openvino"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    ops = openvino.opset13
    names = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    given = [ops.parameter([-1, -1], np.int64, name=name) for name in names]
    for node, name in zip(given, names, strict=True):
        node.output(0).set_names({name})
    states = [ops.unsqueeze(ops.convert(node, "f32"), ops.constant(2)) for node in given]
    (tmp_path / "openvino").mkdir()
    model = openvino.Model([ops.concat(states, 2)], given)
    openvino.save_model(model, tmp_path / "openvino" / "openvino_model.xml", False)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 20}))
    encoder = TransformerEncoder(str(tmp_path), pooling="last", precision="fp32")
    assert encoder.encode_ids([[7, 8, 9], [5]]).tolist() == [[9, 1, 0, 2], [5, 1, 0, 0]]
    assert encoder.max_length == 20
