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
from slimdex.retrieval.encoders.model_folder import Prompts, read_folder
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


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"prompts": {"query": "cat: ", "passage": "rain: "}}, Prompts("cat: ", "rain: ")),
        (
            {"prompts": {"search": "find "}, "default_prompt_name": "search"},
            Prompts("find ", "find "),
        ),
    ],
)
def test_prompts_of_a_folder(write: Write, config: dict[str, Any], expected: Prompts) -> None:
    encoder = TransformerEncoder(str(write(**{"config_sentence_transformers.json": config})))
    assert encoder.prompts == encoder_from_spec(encoder.spec()).prompts == expected


def test_lower_case(write: Write) -> None:
    folder = write(**{"0_Transformer/sentence_bert_config.json": {"do_lower_case": True}})
    assert read_folder(folder).lower_case
    assert TransformerEncoder(str(folder)).max_length == 64  # nothing said: the model's own limit
    path = folder / "0_Transformer" / "sentence_roberta_config.json"  # named after the model
    path.write_text('{"max_seq_length": 20}')
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text("{}")
    assert TransformerEncoder(str(folder)).max_length == 20
    (folder / "modules.json").unlink()
    path.unlink()
    assert read_folder(folder / "0_Transformer").max_length is None


@pytest.mark.parametrize(
    "changes",
    [
        {"modules.json": "{"},
        {"modules.json": [{"type": "own_code.Transformer"}]},
        {"modules.json": [{"type": TRANSFORMER}, {"type": LSTM}]},
        {"modules.json": [{"type": TRANSFORMER, "path": "../elsewhere"}]},
        {"1_Pooling/config.json": {"pooling_mode_weightedmean_tokens": True}},
        {
            "1_Pooling/config.json": {"pooling_mode": "cls", "include_prompt": False},
            "config_sentence_transformers.json": {"prompts": {"query": "q: "}},
        },
        {"config_sentence_transformers.json": {"prompts": {"query": 1}}},
        {"2_Dense/config.json": {"activation_function": "os.system"}},
        {"2_Dense/config.json": {"use_residual": True}},
    ],
)
def test_malformed_folders_are_refused(write: Write, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_folder(write(**changes))


@pytest.mark.slow
def test_a_dense_that_does_not_fit_or_is_a_pickle(write: Write) -> None:
    folder = write()
    for width, message in (
        (5, r"linear.weight \(4, 5\); expected \(any, 32\)"),
        (WIDTH, r"bias \(5,\); expected \(4,\)"),
    ):
        weights = {"linear.weight": torch.zeros(4, width), "linear.bias": torch.zeros(5)}
        save_file(weights, folder / "2_Dense" / "model.safetensors")
        with pytest.raises(InputError, match=message):
            TransformerEncoder(str(folder))
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"no model\.safetensors \(weights in a pickle"):
        TransformerEncoder(str(folder))
    assert TransformerEncoder(str(folder), pooling="mean").dim == WIDTH
