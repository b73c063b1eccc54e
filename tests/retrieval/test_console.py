from __future__ import annotations

import pytest

from retrieval import console


def test_a_stage_that_begins_again_has_a_rate_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(console, "monotonic", lambda: now)
    monkeypatch.setattr(console.err, "_force_terminal", False)
    with console.progress() as report:
        for start in (0.0, 500.0):
            now = start
            report("encoding", 100, 1000)  # a hundred were there already
            now = start + 20
            report("encoding", 300, 1000)
    line = "encoding 300/1,000, 10/s, 70 s left\n"
    assert capsys.readouterr().err == 2 * line
