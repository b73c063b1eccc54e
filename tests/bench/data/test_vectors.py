from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.data.vectors import WINDOW, content_key, encoded
from tests.encoders import WordEncoder

TEXTS = [f"text number {i}" for i in range(WINDOW + 300)]


def test_encoded_once(tmp_path: Path) -> None:
    encoder = WordEncoder()
    first = encoded(encoder, TEXTS, tmp_path)
    assert len(encoder.encoded) == len(TEXTS)
    again = encoded(encoder, TEXTS, tmp_path)
    assert len(encoder.encoded) == len(TEXTS)
    rows = np.arange(len(TEXTS))
    np.testing.assert_array_equal(again.take(rows), WordEncoder().encode(TEXTS))
    assert first.path == again.path


@pytest.mark.parametrize("cut", [0, 17, 48 * 4 * WINDOW, 48 * 4 * WINDOW + 5])
def test_what_a_kill_left_is_gone_on_with(tmp_path: Path, cut: int) -> None:
    path = encoded(WordEncoder(), TEXTS, tmp_path).path
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    encoder = WordEncoder()
    encoded(encoder, TEXTS, tmp_path)
    assert path.read_bytes() == whole
    assert len(encoder.encoded) == len(TEXTS) - cut // (48 * 4)


def test_the_key_is_the_content() -> None:
    class Named(WordEncoder):
        def __init__(self, **facts: str) -> None:
            super().__init__()
            self.facts = facts

        def spec(self) -> dict[str, str]:
            return dict(self.facts)

    key = content_key(Named(model="a", sha256="1"), ["x", "y"])
    assert key == content_key(Named(model="elsewhere/a", sha256="1"), ["x", "y"])
    others = [
        content_key(Named(model="a", sha256="2"), ["x", "y"]),
        content_key(Named(model="a", sha256="1", pooling="cls"), ["x", "y"]),
        content_key(Named(model="a", sha256="1"), ["y", "x"]),
        content_key(Named(model="a", sha256="1"), ["xy"]),
        content_key(Named(model="a"), ["x", "y"]),
        content_key(Named(model="b"), ["x", "y"]),
    ]
    assert len({key, *others}) == 7
