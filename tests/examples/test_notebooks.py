"""The notebooks of examples/ run from top to bottom, and hold no outputs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.chance import CHANCE, sweep

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks_without_outputs() -> None:
    assert len(NOTEBOOKS) == 5
    for path in NOTEBOOKS:
        code = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert not [cell for cell in code if cell.outputs or cell.execution_count], path.name


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@sweep
@pytest.mark.parametrize("path", CHANCE.sample(NOTEBOOKS, 1), ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    said = "".join(output.get("text", "") for cell in code for output in cell.outputs)
    assert "error:" not in said, said
    if "rag" in path.stem:  # what a model would be asked
        _, _, request = said.partition("the request would be:\n")
        told, question = (message["content"] for message in json.loads(request)["messages"])
        assert "costs ten cents a day" in told
        assert question == "What is the fine for an overdue book?"
