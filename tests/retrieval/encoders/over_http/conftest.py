from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.over_http import connection
from tests.retrieval.server.running import built, serving

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
def expected(own_index: Path) -> Matrix:
    """Vectors of `TEXTS` by the encoder itself."""
    with Collection.open(own_index) as collection:
        return np.asarray(collection.encoder.encode(TEXTS))


@pytest.fixture
def proxy(own_service: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before it; no try waits for long."""
    monkeypatch.setattr(connection, "FIRST_WAIT", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with proxied(Proxy(own_service, "notes")) as running:
        yield running
