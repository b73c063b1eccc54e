from __future__ import annotations

import pytest

from slimdex.retrieval.cli import console
from slimdex.system.progress import progress


def test_a_log_has_a_line_of_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(console, "monotonic", lambda: now)
    with console.progress():
        for time, done in ((0.5, 64), (10.0, 128), (12.0, 256), (21.0, 1024), (22.0, 2048)):
            now = time
            progress("encoding", done, 2048)
    assert capsys.readouterr().err.splitlines() == ["encoding 128/2,048", "encoding 1,024/2,048"]
