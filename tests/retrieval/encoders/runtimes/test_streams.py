"""Batches in streams: the same vectors in the same order, whatever fails and whoever encodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.runtimes import openvino_runtime
from slimdex.retrieval.encoders.runtimes.openvino_runtime import (
    QUERY_BATCHES,
    Batch,
    OpenVinoRuntime,
    in_few_shapes,
)
from slimdex.retrieval.encoders.tokens import token_batches
from slimdex.retrieval.encoders.transformer import TransformerEncoder

TEXTS = [
    " ".join(["the", "cat", "dog", "rain", "a"][: i % 5 + 1] * (i % 7 + 1)) for i in range(200)
]


@pytest.fixture
def encoder(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> TransformerEncoder:
    """With small batches, in streams from the second one on, however few cores there are."""
    monkeypatch.setattr(openvino_runtime, "WORTH_WHILE_S", 0.0)
    monkeypatch.setattr(openvino_runtime, "cores", lambda: 2)
    return TransformerEncoder(str(tiny_bert), precision="fp32", batch_tokens=64)


def runtime_of(encoder: TransformerEncoder) -> OpenVinoRuntime:
    assert isinstance(encoder._runtime, OpenVinoRuntime)
    return encoder._runtime


def batches_of(encoder: TransformerEncoder) -> list[Batch]:
    ids = encoder._tokenizer.ids(TEXTS[:3])
    return [encoder._tokenizer.pad(ids)] * 12


def test_vectors_are_those_of_one_batch_after_the_other(encoder: TransformerEncoder) -> None:
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert runtime_of(encoder)._streams is None
    for _ in range(2):
        np.testing.assert_allclose(encoder.encode(TEXTS), alone, atol=1e-5)
    assert runtime_of(encoder)._streams is not None


def test_queries_are_not_worth_a_compilation(
    encoder: TransformerEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvino_runtime, "WORTH_WHILE_S", 1e-9)
    batches = batches_of(encoder)
    for _ in range(3):
        list(encoder._runtime.run(batches[:QUERY_BATCHES]))
    assert runtime_of(encoder)._streams is None
    list(encoder._runtime.run(batches[: QUERY_BATCHES + 2]))
    assert runtime_of(encoder)._streams is not None


def test_batches_of_queries_have_few_shapes_and_the_vectors_of_each_alone(
    encoder: TransformerEncoder,
) -> None:
    rng, shapes, tokens = np.random.default_rng(0), set[tuple[int, ...]](), [0, 0]
    for count in range(1, 65):
        ids = [[5] * n for n in rng.integers(3, 40, count).tolist()]
        for rows in token_batches([*map(len, ids)], 512):
            whole = encoder._tokenizer.pad([ids[i] for i in rows])
            parts = [*in_few_shapes(*whole)]
            assert sum(mask.sum() for _, mask in parts) == whole[1].sum()
            assert [len(part) for part, _ in parts] == [len(mask) for _, mask in parts]
            shapes |= {part.shape for part, _ in parts}
            tokens = [tokens[0] + whole[0].size, tokens[1] + sum(part.size for part, _ in parts)]
    assert len({n * width for n, width in shapes}) < 40  # of 128 multiples of 4
    assert tokens[1] < tokens[0]
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS[:40]])
    together = np.concatenate([*encoder._runtime.run([padded(encoder, TEXTS[:40])])])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def padded(encoder: TransformerEncoder, texts: list[str]) -> Batch:
    return encoder._tokenizer.pad(encoder._tokenizer.ids(texts))


def failing(batches: list[Batch]) -> Iterator[Batch]:
    yield from batches
    raise ValueError("the seventh text")


@pytest.mark.parametrize("worth_while_s", [0.0, 3600.0])
def test_a_failed_batch_does_no_harm_to_later_ones(
    encoder: TransformerEncoder, monkeypatch: pytest.MonkeyPatch, worth_while_s: float
) -> None:
    monkeypatch.setattr(openvino_runtime, "WORTH_WHILE_S", worth_while_s)
    batches, run = batches_of(encoder), encoder._runtime.run
    (vectors,) = run(batches[:1])
    with pytest.raises(ValueError, match="the seventh text"):
        list(run(failing(batches)))
    ids, _ = batches[0]
    wrong = (ids, np.ones((len(ids) + 1, 3), dtype=np.int64))  # a mask of another shape
    for _ in range(3):
        with pytest.raises(RuntimeError, match="broadcast"):
            list(run([*batches, wrong, *batches]))
        for again in run(batches):  # of the shape that has just failed
            np.testing.assert_allclose(again, vectors, atol=1e-5)


def test_a_caller_that_stops_early_returns_its_requests(encoder: TransformerEncoder) -> None:
    for _ in range(3):
        outputs = encoder._runtime.run(batches_of(encoder))
        next(outputs)
        outputs.close()  # type: ignore[attr-defined]
    streams = runtime_of(encoder)._streams
    assert streams is not None
    assert len(streams._idle) == 1


def test_each_thread_gets_its_own_vectors(encoder: TransformerEncoder) -> None:
    expected = encoder.encode(TEXTS)

    def rolled(i: int) -> Matrix:
        return np.roll(encoder.encode(TEXTS[i:] + TEXTS[:i]), i, axis=0)

    with ThreadPoolExecutor(4) as threads:
        for vectors in threads.map(rolled, range(16)):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


FORK = """
    import multiprocessing, sys
    from slimdex.retrieval.encoders.transformer import TransformerEncoder

    def error_of(act):
        try:
            ACTS[act]()
        except ValueError as error:
            return str(error)

    def load():
        return TransformerEncoder(sys.argv[1], precision="fp32", batch_tokens=64)

    encoder, texts = load(), ["the cat", "dog", "a dog in the rain"] * 100
    ACTS = {
        "one": lambda: encoder.encode(["the cat"]),
        "many": lambda: encoder.encode(texts),
        "another": lambda: load().encode(texts),
    }
    for how in ("fork", "spawn"):
        if __name__ == "__main__":
            with multiprocessing.get_context(how).Pool(1) as pool:
                print(*pool.map(error_of, ACTS), sep="\\n")
"""


@pytest.mark.slow
def test_a_fork_of_an_encoding_process_is_refused_and_a_spawned_process_is_not(
    tiny_bert: Path, tmp_path: Path
) -> None:
    """Sooner or later a fork would wait for a lock of TBB that a lost thread holds."""
    script = tmp_path / "script.py"
    script.write_text("\n".join(line[4:] for line in FORK.splitlines()))
    ran = subprocess.run(
        [sys.executable, str(script), str(tiny_bert)], capture_output=True, text=True, timeout=120
    )
    *forked, one, many, another = ran.stdout.splitlines()
    assert len(forked) == 3, ran.stderr
    assert all("of which this is a fork" in line for line in forked)
    assert (one, many, another) == ("None", "None", "None")
