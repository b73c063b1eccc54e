from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep

import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cli import console
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.system.progress import listening, progress
from tests.encoders import WordEncoder

CORPORA: dict[str, Callable[[int], int]] = {
    "mixed": lambda i: 5 + 200 * (i % 37 == 0) + i % 11,
    "shorter and shorter": lambda i: 1 + (3000 - i) // 20,
}
"""Words of each of 3,000 documents."""


class ClockEncoder(WordEncoder):
    """Takes a millisecond for each token that it reads, on a clock of its own."""

    max_length = 256
    now = 0.0
    ends = math.inf

    def encode(self, texts: Sequence[str]) -> Matrix:
        if self.now > self.ends:
            raise KeyboardInterrupt
        self.now += seconds(texts)
        return super().encode(["x" for _ in texts])


def seconds(texts: Sequence[str]) -> float:
    return sum(min(len(text) / 4, 256) + 2 for text in texts) / 1000


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("corpus", CORPORA)
def test_the_time_left_is_about_right_from_the_first_line_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    corpus: str,
    interrupted: bool,
) -> None:
    encoder, said = ClockEncoder(), list[tuple[float, float]]()
    monkeypatch.setattr(console, "monotonic", lambda: encoder.now)
    texts = ["abc " * CORPORA[corpus](i) + str(i) for i in range(3000)]  # each is encoded once
    report = console._Lines()
    with Collection.create(tmp_path / "x", encoder, Settings(kind="flat")) as collection:

        def watched(stage: str, done: int, total: int) -> None:
            report(stage, done, total)
            if found := re.search(r"([\d,]+) s left", capsys.readouterr().err):
                said.append((encoder.now, float(found[1].replace(",", ""))))

        documents = [Document(str(i), t) for i, t in enumerate(texts)]
        if interrupted:
            encoder.ends = seconds(texts) / 2
            with pytest.raises(KeyboardInterrupt):
                collection.add(documents)
            encoder.ends = math.inf
        with listening(watched):
            collection.add(documents)
    assert len(said) >= 2
    for now, left in said:
        assert left == pytest.approx(encoder.now - now, rel=0.15, abs=2), said


def test_a_stage_that_begins_again_has_a_rate_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(console, "monotonic", lambda: now)
    with console.progress():
        for start in (0.0, 500.0):
            now = start
            progress("encoding", 100, 1000)  # a hundred were there already
            now = start + 20
            progress("encoding", 300, 1000)
    line = "encoding 300/1,000, 10/s, 70 s left\n"
    assert capsys.readouterr().err == 2 * line


def test_work_that_takes_a_while_says_so_after_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(console, "monotonic", lambda: now)
    with console.progress():
        for time, done in ((0.0, 0), (0.5, 64), (1.0, 128), (2.0, 256), (11.0, 1024)):
            now = time
            progress("encoding", done, 2048)
        for time, done in ((20.0, 0), (21.0, 5), (22.0, 10)):
            now = time
            progress("cutting", done, 10)
    assert capsys.readouterr().err.splitlines() == [
        "encoding 128/2,048, 128/s, 15 s left",
        "encoding 1,024/2,048, 93/s, 11 s left",
    ]


def test_a_single_step_is_named_if_it_takes_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "FIRST_SECONDS", 0.05)
    with console.progress():
        for seconds in (0, 0.5):
            progress(f"downloading for {seconds} s", 0, 1)
            sleep(seconds)
            progress(f"downloading for {seconds} s", 1, 1)
        progress("converting", 0, 1)  # fails at once
    sleep(0.2)
    assert capsys.readouterr().err == "downloading for 0.5 s\n"
