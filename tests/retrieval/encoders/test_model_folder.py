"""Model folders: read as sentence-transformers writes them, and refused if they could do harm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.retrieval.encoders.model_folder import Prompts, check_model_folder, read_folder
from slimdex.retrieval.encoders.transformer import TransformerEncoder, encoder_from_spec
from tests.encoders import WIDTH, make_tiny_bert

OUT = 20
RNG = np.random.default_rng(1)
DENSE = {
    "linear.weight": RNG.normal(size=(OUT, WIDTH)).astype(np.float32),
    "linear.bias": RNG.normal(size=OUT).astype(np.float32),
}
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
        save_file(DENSE, tmp_path / "2_Dense" / "model.safetensors")
        return tmp_path

    return written


def first_tokens(folder: Path, texts: list[str], length: int = 16) -> Matrix:
    """The last hidden state of each text's first token, straight from transformers."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "0_Transformer")
    model = AutoModel.from_pretrained(folder / "0_Transformer").eval()
    states = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")["input_ids"]
        states.append(model(input_ids=ids).last_hidden_state[0, 0].detach().numpy())
    return np.stack(states)


@pytest.mark.slow
def test_its_own_pooling_dense_and_normalize(write: Write) -> None:
    folder = write()
    encoder = TransformerEncoder(str(folder), precision="fp32")
    assert (encoder.dim, encoder.max_length) == (OUT, 16)
    product = first_tokens(folder, TEXTS) @ DENSE["linear.weight"].T
    expected = normalize_rows(np.tanh(product + DENSE["linear.bias"]))
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    assert encoder.spec()["head"] == ["Dense", "Normalize"]
    np.testing.assert_allclose(encoder_from_spec(encoder.spec()).encode(TEXTS), expected, atol=1e-5)


@pytest.mark.slow
def test_a_given_pooling_leaves_out_what_follows(write: Write) -> None:
    folder = write()
    encoder = TransformerEncoder(str(folder), pooling="cls", precision="fp32")
    expected = first_tokens(folder, TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    assert "head" not in encoder.spec()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"prompts": {"query": "cat: ", "passage": "rain: "}}, Prompts("cat: ", "rain: ")),
        ({"prompts": {"query": "cat: "}, "default_prompt_name": "query"}, Prompts("cat: ", "")),
        (
            {"prompts": {"document": "rain: ", "sts": "find "}, "default_prompt_name": "sts"},
            Prompts("", "rain: "),
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
        {"1_Pooling/config.json": {"pooling_mode": ["cls", "median"]}},
        {"config_sentence_transformers.json": {"prompts": {"query": 1}}},
        {"config_sentence_transformers.json": {"truncate_dim": 0}},
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
        weights = {"linear.weight": np.zeros((4, width)), "linear.bias": np.zeros(5)}
        save_file(weights, folder / "2_Dense" / "model.safetensors")
        with pytest.raises(InputError, match=message):
            TransformerEncoder(str(folder))
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"no model\.safetensors \(weights in a pickle"):
        TransformerEncoder(str(folder))
    assert TransformerEncoder(str(folder), pooling="mean").dim == WIDTH


EVIL = """open({!r}, "w").write("x")
from transformers import BertConfig as EvilConfig, BertModel as EvilModel
from transformers import PreTrainedTokenizerFast as EvilTokenizer
"""
AUTO_MAP = {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}
TOKENIZER = {"AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"]}
ONE_MODULE, POOLING = (
    {"type": f"sentence_transformers.models.{n}", "path": ""} for n in ("Transformer", "Pooling")
)


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path) -> Path:
    copy = Path(shutil.copytree(tiny_bert, tmp_path / "m"))
    (copy / "evil.py").write_text(EVIL.format(str(tmp_path / "ran")))
    return copy


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_pickles_are_not_read(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"no model\.safetensors in that folder"):
        TransformerEncoder(str(folder))


@pytest.mark.parametrize(
    "values",
    [
        {"attn_implementation": "someone/kernel"},
        {"text_config": {"_experts_implementation": "x/y"}},
        {"num_hidden_layers": 200_000},
        {"hidden_size": 1 << 40},
        {"x": [[{"y_size": 10**30}]]},
    ],
)
def test_configurations_that_load_code_or_exhaust_memory_are_refused(
    folder: Path, values: dict[str, Any]
) -> None:
    change(folder / "config.json", **values)
    with pytest.raises(InputError, match=r"config\.json: "):
        TransformerEncoder(str(folder))


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "\0", '{"a": ', "NaN"])
@pytest.mark.parametrize("name", ["config.json", "modules.json"])
def test_malformed_json_is_refused(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    if (name, text) != ("modules.json", "[]"):
        with pytest.raises(InputError, match="expected"):
            TransformerEncoder(str(folder))


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "a/b.safetensors", 3, None])
def test_shards_outside_the_folder_are_refused(folder: Path, name: object) -> None:
    index = {"metadata": {}, "weight_map": {"a": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="expected files in the folder"):
        TransformerEncoder(str(folder))


def test_an_adapter_of_another_model_is_refused(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "/etc"}')
    with pytest.raises(InputError, match="an adapter of another model"):
        TransformerEncoder(str(folder))


@pytest.mark.parametrize("path", ["..", "/etc", "a/../../..", "\0", "link"])
def test_modules_outside_the_folder_are_refused(folder: Path, path: str) -> None:
    (folder / "link").symlink_to("/etc")
    for modules in (
        [ONE_MODULE | {"path": path}, POOLING],
        [ONE_MODULE, POOLING | {"path": path}],
    ):
        (folder / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(InputError, match="expected a path inside the folder"):
            read_folder(folder)


def test_a_hub_cache_of_links_is_read(folder: Path, tmp_path: Path) -> None:
    """Its files are links to blobs beside it."""
    links = tmp_path / "snapshots" / "x"
    links.mkdir(parents=True)
    for file in folder.iterdir():
        (links / file.name).symlink_to(file)
    check_model_folder(links)
    assert read_folder(links).transformer == links


@pytest.mark.parametrize("weights", [b"", b"\xff" * 7 + b"\0" + b"x" * 99, b"\x08" + b"\0" * 7])
def test_weights_of_any_size_are_checked_first(folder: Path, weights: bytes) -> None:
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(InputError, match="expected a folder with a transformers model"):
        TransformerEncoder(str(folder), precision="fp32").encode(["the cat"])


def test_custom_code_is_refused(folder: Path, tmp_path: Path) -> None:
    change(folder / "config.json", auto_map=AUTO_MAP, model_type="evil")
    with pytest.raises(InputError, match="custom code"):
        TransformerEncoder(str(folder)).encode(["the cat"])
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_custom_code_is_ignored_if_transformers_has_the_class(folder: Path, tmp_path: Path) -> None:
    change(folder / "config.json", auto_map=AUTO_MAP)
    change(folder / "tokenizer_config.json", auto_map=TOKENIZER)
    assert TransformerEncoder(str(folder)).encode(["the cat"]).shape == (1, 32)
    assert not (tmp_path / "ran").exists()
