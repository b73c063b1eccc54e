"""sentence-transformers folders, written here as that library writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.encoders.sentence_folder import Prompts, read_folder
from slimdex.retrieval.encoders.transformer import TransformerEncoder, encoder_from_spec
from tests.encoders import WIDTH, make_tiny_bert

OUT = 20
TRANSFORMER, LSTM = (f"sentence_transformers.models.{n}" for n in ("Transformer", "LSTM"))
TEXTS = ["the cat", "rain and the dog", ""]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a folder with a transformer in a subfolder, a pooling, a Dense and a Normalize."""
    make_tiny_bert(tmp_path / "0_Transformer")

    def written(**changes: Any) -> Path:
        names = ["0_Transformer", "1_Pooling", "2_Dense", "3_Normalize"]
        modules = [
            {"idx": i, "name": str(i), "path": name, "type": f"sentence_transformers.models.{kind}"}
            for i, name in enumerate(names)
            if (kind := name.partition("_")[2])
        ]
        files: dict[str, Any] = {
            "modules.json": modules,
            "1_Pooling/config.json": {"word_embedding_dimension": WIDTH, "pooling_mode": "cls"},
            "2_Dense/config.json": {
                "in_features": WIDTH,
                "out_features": OUT,
                "activation_function": "torch.nn.modules.activation.Tanh",
            },
            "0_Transformer/sentence_bert_config.json": {"max_seq_length": 16},
        }
        for name, value in (files | changes).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value))
        torch.manual_seed(1)
        weights = {"linear.weight": torch.randn(OUT, WIDTH), "linear.bias": torch.randn(OUT)}
        save_file(weights, tmp_path / "2_Dense" / "model.safetensors")
        return tmp_path

    return written


def first_tokens(folder: Path, texts: list[str], length: int = 16) -> torch.Tensor:
    """The last hidden state of each text's first token, straight from transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "0_Transformer")
    model = transformers.AutoModel.from_pretrained(folder / "0_Transformer").eval()
    states = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            states.append(model(input_ids=ids).last_hidden_state[0, 0])
    return torch.stack(states)


@pytest.mark.slow
def test_its_own_pooling_dense_and_normalize(write: Write) -> None:
    folder = write()
    encoder = TransformerEncoder(str(folder), precision="fp32")
    assert (encoder.dim, encoder.max_length) == (OUT, 16)
    weights = torch.nn.Linear(WIDTH, OUT)
    torch.manual_seed(1)
    weights.weight.data, weights.bias.data = torch.randn(OUT, WIDTH), torch.randn(OUT)
    dense = torch.tanh(weights(first_tokens(folder, TEXTS)))
    expected = torch.nn.functional.normalize(dense, dim=-1).detach().numpy()
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    assert encoder.spec()["head"] == ["Dense", "Normalize"]
    np.testing.assert_allclose(encoder_from_spec(encoder.spec()).encode(TEXTS), expected, atol=1e-5)


@pytest.mark.slow
def test_a_given_pooling_leaves_out_what_follows(write: Write) -> None:
    folder = write()
    encoder = TransformerEncoder(str(folder), pooling="cls", precision="fp32")
    expected = first_tokens(folder, TEXTS).numpy()
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    assert "head" not in encoder.spec()


@pytest.mark.slow
def test_prompts_are_written_before_texts(write: Write) -> None:
    prompts = {"query": "cat: ", "passage": "rain: "}
    folder = write(**{"config_sentence_transformers.json": {"prompts": prompts}})
    encoder = TransformerEncoder(str(folder), pooling="cls", precision="fp32")
    plain = TransformerEncoder(str(folder), pooling="cls", query_prompt="", document_prompt="")
    np.testing.assert_allclose(
        encoder.encode(["dog"]), plain.encode(["rain: dog"]), atol=0.05
    )  # plain is in the processor's own precision
    exact = first_tokens(folder, ["cat: dog", "rain: dog"]).numpy()
    np.testing.assert_allclose(encoder.encode_queries(["dog"]), exact[:1], atol=1e-5)
    np.testing.assert_allclose(encode_queries(encoder, ["dog"]), exact[:1], atol=1e-5)
    np.testing.assert_allclose(encoder.encode(["dog", "dog"]), exact[[1, 1]], atol=1e-5)
    again = encoder_from_spec(encoder.spec())
    np.testing.assert_allclose(again.encode_queries(["dog"]), exact[:1], atol=1e-5)
    assert "prompts" not in plain.spec()


def test_a_default_prompt_is_for_both(write: Write) -> None:
    config = {"prompts": {"search": "find "}, "default_prompt_name": "search"}
    folder = write(**{"config_sentence_transformers.json": config})
    assert read_folder(folder).prompts == Prompts("find ", "find ")


def test_lower_case(write: Write) -> None:
    folder = write(**{"0_Transformer/sentence_bert_config.json": {"do_lower_case": True}})
    assert read_folder(folder).lower_case
    assert TransformerEncoder(str(folder)).max_length == 64  # nothing said: the model's own limit
    (folder / "modules.json").unlink()
    assert read_folder(folder / "0_Transformer").max_length is None


def test_the_length_may_be_in_a_file_named_after_the_model(write: Write) -> None:
    folder = write(**{"0_Transformer/sentence_bert_config.json": {}})
    path = folder / "0_Transformer" / "sentence_roberta_config.json"
    path.write_text('{"max_seq_length": 20}')
    assert TransformerEncoder(str(folder)).max_length == 20


def test_a_bias_of_another_length_is_refused(write: Write) -> None:
    folder = write()
    weights = {"linear.weight": torch.zeros(4, WIDTH), "linear.bias": torch.zeros(5)}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(InputError, match=r"bias \(5,\); expected \(4,\)"):
        TransformerEncoder(str(folder))


@pytest.mark.parametrize(
    "changes",
    [
        {"modules.json": "{"},
        {"modules.json": {"a": 1}},
        {"modules.json": [{"idx": 0}]},
        {"modules.json": [{"type": "own_code.Transformer"}]},
        {"modules.json": [{"type": TRANSFORMER}, {"type": LSTM}]},
        {"modules.json": [{"type": TRANSFORMER, "path": "../elsewhere"}]},
        {"1_Pooling/config.json": []},
        {"1_Pooling/config.json": {"pooling_mode_weightedmean_tokens": True}},
        {"1_Pooling/config.json": {"pooling_mode": ["cls", "mean"]}},
        {
            "1_Pooling/config.json": {"pooling_mode": "cls", "include_prompt": False},
            "config_sentence_transformers.json": {"prompts": {"query": "q: "}},
        },
        {"config_sentence_transformers.json": {"prompts": ["x"]}},
        {"config_sentence_transformers.json": {"prompts": {"query": 1}}},
        {"0_Transformer/sentence_bert_config.json": {"max_seq_length": "256"}},
        {"2_Dense/config.json": {"activation_function": "os.system"}},
        {"2_Dense/config.json": {"activation_function": "torch.nn.Module.load"}},
        {"2_Dense/config.json": {"use_residual": True}},
    ],
)
def test_malformed_folders_are_refused(write: Write, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_folder(write(**changes))


@pytest.mark.slow
def test_a_dense_that_does_not_fit_or_is_a_pickle(write: Write) -> None:
    folder = write()
    save_file({"linear.weight": torch.zeros(4, 5)}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(InputError, match=r"linear.weight \(4, 5\); expected \(any, 32\)"):
        TransformerEncoder(str(folder))
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"no model\.safetensors \(weights in a pickle"):
        TransformerEncoder(str(folder))
    assert TransformerEncoder(str(folder), pooling="mean").dim == WIDTH
