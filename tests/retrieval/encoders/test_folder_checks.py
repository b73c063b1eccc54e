"""A model's folder that a stranger made: it runs no code, leads nowhere else and ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slimdex.command_line import app
from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.folder_checks import check_model_folder
from slimdex.retrieval.encoders.sentence_folder import read_folder
from slimdex.retrieval.encoders.transformer import TransformerEncoder

EVIL = """open({!r}, "w").write("x")
from transformers import BertConfig as EvilConfig, BertModel as EvilModel
from transformers import PreTrainedTokenizerFast as EvilTokenizer
"""
AUTO_MAP = {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}
TOKENIZER = {"AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"]}
TRANSFORMER, POOLING = (
    {"type": f"sentence_transformers.models.{n}", "path": ""} for n in ("Transformer", "Pooling")
)


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path) -> Path:
    copy = Path(shutil.copytree(tiny_bert, tmp_path / "m"))
    (copy / "evil.py").write_text(EVIL.format(str(tmp_path / "ran")))
    return copy


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt", "tf_model.h5"])
def test_pickles_are_not_read(folder: Path, name: str) -> None:
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(InputError, match=f"no model.safetensors .*{name} is not read: it could"):
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
        [TRANSFORMER | {"path": path}, POOLING],
        [TRANSFORMER, POOLING | {"path": path}],
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


def test_a_warning_precedes_trusted_code(tmp_path: Path) -> None:
    words = ["search", str(tmp_path / "none"), "x", "--trust-remote-code"]
    done = CliRunner().invoke(app, words)
    assert "code that comes with the model is run with your permissions" in " ".join(
        done.output.split()
    )
