from __future__ import annotations

import pytest

from slimdex.retrieval.cli import console
from slimdex.system.progress import progress


def test_a_log_says_what_is_done_and_how_long_the_rest_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The share never falls, though the estimated total may grow."""
    now = 0.0
    monkeypatch.setattr(console, "monotonic", lambda: now)
    with console.progress(faster=" (--fast)"):
        for time, done, total in (
            *((0.0, 0, 2000), (1.0, 10, 2000), (5.0, 100, 2000), (7.0, 200, 2000)),
            *((20.0, 1000, 2000), (40.0, 1000, 4000), (60.0, 3000, 4000)),
            (80.0, 4000, 4000),
        ):
            now = time
            progress("encoding", done, total)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "encoding: 50% of 2,000, 0:17 left (--fast)",
        "encoding: 50% of 4,000, 0:17 left",
        "encoding: 75% of 4,000, 0:21 left",
    ]
