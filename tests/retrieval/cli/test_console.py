from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.execution.progress import listening, progress
from slimdex.indexes.settings import Settings
from slimdex.retrieval import adding
from slimdex.retrieval.cli import console, progress_display
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder

CORPORA: dict[str, Callable[[int], int]] = {
    "mixed": lambda i: 5 + 200 * (i % 37 == 0) + i % 11,
    "longer and longer": lambda i: 1 + i // 20,
    "shorter and shorter": lambda i: 1 + (3000 - i) // 20,
    "some far longer than is read": lambda i: 2000 if i % 100 == 0 else 10,
}
"""Words of each of 3,000 documents."""


class ClockEncoder(WordEncoder):
    """Takes a millisecond for each token that it reads, on a clock of its own."""

    max_length = 256
    now = 0.0

    def encode(self, texts: Sequence[str]) -> Matrix:
        self.now += sum(min(len(text) / 4, 256) + 2 for text in texts) / 1000
        return super().encode(["x" for _ in texts])


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_the_time_left_is_about_right_from_the_first_line_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    corpus: str,
) -> None:
    encoder, said = ClockEncoder(), list[tuple[float, float]]()
    monkeypatch.setattr(progress_display, "monotonic", lambda: encoder.now)
    texts = ["abc " * CORPORA[corpus](i) + str(i) for i in range(3000)]  # each is encoded once
    report = progress_display._Lines()
    with Collection.create(tmp_path / "x", encoder, Settings(kind="flat")) as collection:

        def watched(stage: str, done: int, total: int) -> None:
            report(stage, done, total)
            if found := re.search(r"([\d,]+) s left", capsys.readouterr().err):
                said.append((encoder.now, float(found[1].replace(",", ""))))

        with listening(watched):
            collection.add([Document(str(i), t) for i, t in enumerate(texts)])
    assert len(said) >= 3
    for now, left in said:
        assert left == pytest.approx(encoder.now - now, rel=0.15, abs=2), said


def test_encoding_counts_up_to_all_documents_also_after_an_interruption(tmp_path: Path) -> None:
    seen, stopped = list[tuple[int, int]](), list[bool]()

    class Stopped(Exception):
        pass

    def watched(stage: str, done: int, total: int) -> None:
        if stage == "encoding":
            seen.append((done, total))
            if collection.state.encoded and not stopped:
                stopped.append(True)
                raise Stopped

    texts = ["abc " * CORPORA["mixed"](i) for i in range(3000)]
    with Collection.create(tmp_path / "x", WordEncoder(), Settings(kind="flat")) as collection:
        with pytest.raises(Stopped), listening(watched):
            collection.add([Document(str(i), t) for i, t in enumerate(texts)])
        kept = collection.state.encoded
        assert seen == sorted(seen)
        assert kept == 1024
        seen.clear()
        with listening(watched):
            adding.resume(collection)
    assert seen[0][0] == pytest.approx(kept, rel=0.1)
    assert seen == sorted(seen)
    assert seen[-1] == (3000, 3000)
    assert all(done < 3000 for done, _ in seen[:-1])


def test_a_stage_that_begins_again_has_a_rate_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress_display, "monotonic", lambda: now)
    with console.progress():
        for start in (0.0, 500.0):
            now = start
            progress("encoding", 100, 1000)  # a hundred were there already
            now = start + 20
            progress("encoding", 300, 1000)
    line = "encoding 300/1,000, 10/s, 70 s left\n"
    assert capsys.readouterr().err == 2 * line
