"""The page about the service runs as it stands, top to bottom, while its services run.

Only addresses are others: a free port in place of 8000, and a folder of the test's for `/srv`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.given import give
from tests.retrieval.sources.files.test_books import lines, pdf_file
from tests.test_docs import environment, printed

PAGE = Path(__file__).parents[1] / "docs" / "serve.md"
CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=search.example.org "
    "-addext subjectAltName=DNS:search.example.org -keyout key.pem -out cert.pem"
)


class Page:
    """Runs blocks in a folder; a service runs until the next one is started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = ""
        self._service: subprocess.Popen[str] | None = None

    def run(self, language: str, block: str) -> Iterator[str]:
        """Yield what each command prints, a service its address; lines without $ are expected."""
        block = block.replace("/srv/", f"{self.folder}/")
        if language == "python":
            yield printed([sys.executable, "-c", block.replace("8000", self._port)], self.folder)
            return
        for command, expected in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
            if command.startswith("slimdex serve "):
                said = self._served(command)
            else:
                said = printed(["sh", "-c", command.replace("8000", self._port)], self.folder)
            assert expected in said
            yield said

    def stop(self) -> None:
        """End the service that runs, if there is one."""
        if self._service is not None:
            with self._service as ending:
                ending.terminate()
            assert ending.returncode == 0

    def _served(self, command: str) -> str:
        self.stop()
        self._service = subprocess.Popen(
            [*shlex.split(command), "--port", "0"],
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._service.stdout is not None
        address, _, self._port = self._service.stdout.readline().strip().rpartition(":")
        (self.folder / ".curlrc").write_text(
            f"silent\nfail-with-body\nnoproxy = *\ncacert = {self.folder / 'cert.pem'}\n"
            f"resolve = search.example.org:{self._port}:127.0.0.1\n"
        )
        return f"{address}:8000\n"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setenv("CURL_HOME", str(tmp_path))
    give(tmp_path)
    (tmp_path / "2024.pdf").write_bytes(pdf_file([lines(b"Rain fell on the roof.")]))
    (tmp_path / "archive").mkdir()
    (tmp_path / "2019.index").rename(tmp_path / "archive" / "2019.index")
    (tmp_path / "indexes").mkdir()
    subprocess.run(CERTIFICATE.split(), cwd=tmp_path, check=True, capture_output=True)
    found = Page(tmp_path)
    yield found
    found.stop()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_it_runs_from_top_to_bottom(page: Page) -> None:
    blocks = re.findall(r"^```(console|python)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    outputs = [words for language, block in blocks for words in page.run(language, block)]
    said = [words.replace(" ", "") for words in outputs]
    expected = (
        *("http://127.0.0.1:8000", "rug", '{"id":"7","documents":801}', '"documents":1'),
        *('"unchanged":8', "", "", "", "https://0.0.0.0:8000", '"documents":801'),
    )
    assert [part for part, words in zip(expected, said, strict=True) if part not in words] == []
