"""Streams: the same vectors in the same order, whatever fails and whoever else is encoding."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openvino
import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.runtimes import streams as module
from slimdex.retrieval.encoders.runtimes.openvino_runtime import OpenVinoRuntime
from slimdex.retrieval.encoders.runtimes.streams import Batch, Streams
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.user_cache import remember, remembered

TEXTS = [
    " ".join(["the", "cat", "dog", "rain", "a"][: i % 5 + 1] * (i % 7 + 1)) for i in range(200)
]


@pytest.fixture
def encoder(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> TransformerEncoder:
    """With small batches, and streams that are tried at once."""
    monkeypatch.setattr(module, "WORTH_WHILE_S", 0.0)
    return TransformerEncoder(str(tiny_bert), precision="fp32", batch_tokens=64)


def two_streams(encoder: TransformerEncoder, name: str = "") -> Streams:
    """On however few cores."""
    runtime = encoder._runtime
    assert isinstance(runtime, OpenVinoRuntime)
    options = {"NUM_STREAMS": 2, "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}
    return Streams(lambda: openvino.Core().compile_model(runtime.model, "CPU", options), name)


def in_streams(encoder: TransformerEncoder, name: str = "") -> Streams:
    """The encoder's runtime with two streams, in place of as many as suit the processor."""
    runtime = encoder._runtime
    assert isinstance(runtime, OpenVinoRuntime)
    runtime._streams = two_streams(encoder, name)
    return runtime._streams


def batches_of(encoder: TransformerEncoder, count: int = 12) -> list[Batch]:
    return encoder._sample(TEXTS)[:1] * count


@pytest.mark.slow
def test_vectors_are_those_of_one_batch_after_the_other(encoder: TransformerEncoder) -> None:
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    found = in_streams(encoder)
    for known in (None, True, False):  # tried, and decided
        found.faster = known
        np.testing.assert_allclose(encoder.encode(TEXTS), alone, atol=1e-5)
    assert found._model is not None


def test_which_is_faster_is_found_out_on_the_work_itself_and_remembered(
    encoder: TransformerEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path))
    found = in_streams(encoder, "tried")
    list(encoder._runtime.run(batches_of(encoder, 2)))
    assert found.faster is None  # one turn is not enough
    assert remembered("tried") is None
    encoder.encode(TEXTS)
    assert found.faster in (True, False)
    assert remembered("tried") is found.faster
    for said in (True, False):
        remember("tried", said)
        assert two_streams(encoder, "tried").faster is said
    for damaged in (b"", b'"yes"', b"\xff{", b"1"):
        (tmp_path / "tried.json").write_bytes(damaged)
        assert two_streams(encoder, "tried").faster is None


def test_little_work_compiles_no_second_model(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORTH_WHILE_S", 3600.0)
    encoder = TransformerEncoder(str(tiny_bert), precision="fp32", batch_tokens=64)
    found = in_streams(encoder)
    for known in (None, True, False):
        found.faster = known
        assert encoder.encode(TEXTS).shape == (len(TEXTS), 32)
    assert found._model is None
    assert found._worked_s > 0


def failing(batches: list[Batch]) -> Iterator[Batch]:
    yield from batches
    raise ValueError("the seventh text")


@pytest.mark.slow
@pytest.mark.parametrize("faster", [True, False])
def test_what_fails_is_told_and_does_no_harm(encoder: TransformerEncoder, faster: bool) -> None:
    expected, found = encoder.encode(TEXTS), in_streams(encoder)
    found.faster = faster
    encoder.encode(TEXTS)
    batches, run = batches_of(encoder), encoder._runtime.run
    (vectors,) = run(batches[:1])
    with pytest.raises(ValueError, match="the seventh text"):
        list(run(failing(batches)))
    ids, _ = batches[0]
    wrong = (ids, np.ones((len(ids) + 1, 3), dtype=np.int64))  # a mask of another shape
    for _ in range(3):
        with pytest.raises(RuntimeError, match="broadcast"):
            list(run([*batches, wrong, *batches]))
        assert found._model is None or not faster  # who fails is not asked again
        for again in run(batches):  # of the shape that has just failed
            np.testing.assert_allclose(again, vectors, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)


def test_requests_come_back_from_who_wants_no_more(encoder: TransformerEncoder) -> None:
    found, batches = in_streams(encoder), batches_of(encoder)
    found.faster = True
    for _ in range(3):
        unwanted = encoder._runtime.run(batches)
        next(unwanted)
        unwanted.close()  # type: ignore[attr-defined]
    assert len(found._idle) == 1


@pytest.mark.slow
def test_threads_get_each_its_own_vectors(encoder: TransformerEncoder) -> None:
    expected, found = encoder.encode(TEXTS), in_streams(encoder)

    def rolled(i: int) -> Matrix:
        return np.roll(encoder.encode(TEXTS[i:] + TEXTS[:i]), i, axis=0)

    for known in (None, True):
        found.faster = known
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
def test_a_fork_of_who_encodes_is_refused_and_another_process_is_not(
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
    (said,) = set(forked)
    assert re.fullmatch(
        r"encoder: already used by process \d+, of which this is a fork; expected a process that "
        'is started with "spawn" or "forkserver"',
        said,
    )
    assert (one, many, another) == ("None", "None", "None")
