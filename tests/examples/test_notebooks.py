"""The notebooks of examples/ run from top to bottom, and hold no outputs."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

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


def printed(path: Path, folder: Path) -> str:
    """Run a notebook in a folder; return its output."""
    notebook = nbformat.read(path, 4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    return "".join(
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    said = printed(path, tmp_path)
    assert "error:" not in said, said


class Model(BaseHTTPRequestHandler):
    """Answers every question in the same words, and keeps what it was asked."""

    asked: ClassVar[list[tuple[str, str | None, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, self.headers["Authorization"], body))
        answer = {"choices": [{"message": {"role": "assistant", "content": "Ten cents a day."}}]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


@pytest.mark.slow
def test_a_model_over_http_gets_the_passages_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = (path for path in NOTEBOOKS if "rag" in path.stem)
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_MODEL", "small")
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        said = printed(path, tmp_path)
        server.shutdown()
    ((place, key, body),) = Model.asked
    assert (place, key, body["model"]) == ("/v1/chat/completions", "Bearer secret", "small")
    told, question = (message["content"] for message in body["messages"])
    assert "costs ten cents a day" in told
    assert question == "What is the fine for an overdue book?"
    assert said.endswith("Ten cents a day.\n")
