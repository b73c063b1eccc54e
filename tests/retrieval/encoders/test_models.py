"""The table of `slimdex models`, and its names as models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from slimdex.command_line import app
from slimdex.retrieval.encoders import models
from slimdex.retrieval.encoders.model_folder import Prompts
from slimdex.retrieval.encoders.models import (
    DEFAULT_MODEL,
    ENGLISH,
    FOR_OTHER_LANGUAGES,
    KNOWN,
    PACKAGED,
    known_model,
    known_prompts,
)
from slimdex.retrieval.encoders.transformer import TransformerEncoder


def test_the_table_is_complete() -> None:
    for name, model in KNOWN.items():
        assert model.hub_id == f"{model.hub_id.partition('/')[0]}/{name}"
        assert (model.score is None) == (not model.source), name
        assert model.source.startswith(("", "https://"))
        assert min(model.parameters, model.dimensions, model.tokens) > 0
    assert KNOWN[DEFAULT_MODEL].hub_id == PACKAGED[DEFAULT_MODEL].hub_id
    assert KNOWN[FOR_OTHER_LANGUAGES].languages != ENGLISH
    assert not KNOWN[FOR_OTHER_LANGUAGES].needs_torch


def test_names_and_hub_ids() -> None:
    assert known_model("other/e5-small-v2") is None
    assert known_model("/a/folder/e5-small-v2") is None
    assert known_prompts("intfloat/e5-small-v2") == ("query: ", "passage: ")
    assert known_prompts("mine") == ("", "")


def test_the_command_lists_it() -> None:
    done = CliRunner().invoke(app, ["models"])
    assert done.exit_code == 0, done.exception
    assert all(name in done.stdout for name in KNOWN)
    found = json.loads(CliRunner().invoke(app, ["models", "--json"]).stdout)
    assert found["e5-small-v2"]["prompts"] == ["query: ", "passage: "]
    assert [*found] == [*KNOWN]


def test_a_short_name_is_a_hub_id_with_its_prompts(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub is a folder of its cache, as after a download."""
    asked = list[str]()

    def from_hub(name: str, hub_id: str, with_code: bool) -> Path:
        asked.append(hub_id)
        folder = tmp_path / "a-commit"
        shutil.copytree(tiny_bert, folder, dirs_exist_ok=True)
        return folder

    monkeypatch.setattr(models, "_from_hub", from_hub)
    encoder = TransformerEncoder("e5-small-v2")
    assert asked == ["intfloat/e5-small-v2"]
    assert encoder.spec()["model"] == "intfloat/e5-small-v2"
    assert encoder.prompts == Prompts("query: ", "passage: ")
    assert TransformerEncoder("e5-small-v2", query_prompt="").prompts == Prompts("", "passage: ")
    assert TransformerEncoder(str(tiny_bert)).prompts == Prompts()
