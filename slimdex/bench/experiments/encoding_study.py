"""`slimdex bench encode`: speed of encoding, compared with other libraries.

All encoders get the same texts in turns, round after round, and the rate of bare matrix products is
measured in the same rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.runtimes.openvino_runtime import HINTS, openvino_library

from ..datasets import DOCSTRINGS, load_dataset, open_local
from ..engines.encoders import CONTENDERS, Encodes, missing_contenders
from ..engines.processes import Contender, Subprocess, in_turns, replace_rows
from ..machine import peak_memory
from ..rows import ResultsFile, Row, key_of
from .similarity_study import Pairs, read_seven, spearman

LIBRARIES = ("openvino", "sentence-transformers", "onnxruntime")
"""Packages whose versions the rows have."""
ROUNDS = 4
SHORT_TEXTS, LONG_TEXTS, SINGLE_TEXTS = 2000, 200, 50
"""Texts in a round: sentences, documents, and sentences encoded one at a time."""
WARM_UP = 20
PRODUCT_ROWS = 4096
RATE_SECONDS = 0.5


@dataclass(frozen=True)
class Texts:
    """Texts to encode; `sts` has the sets to judge the vectors by, none for speed only."""

    name: str
    short: Sequence[str]
    long: Sequence[str]
    sts: Sequence[Pairs] = field(default=())

    @classmethod
    def read(cls, data: Path | None) -> Texts:
        """Read a folder with sts and retrieval/scifact; without one, Python's docstrings.

        Short texts are STS-B's sentences, or first paragraphs of docstrings; long ones are
        documents, or the rest of docstrings.
        """
        if data is None:
            docstrings = load_dataset(DOCSTRINGS, None)
            short = list(dict.fromkeys(docstrings.query_texts))[:SHORT_TEXTS]
            return cls(docstrings.name, short, docstrings.texts[:LONG_TEXTS])
        sts, documents = read_seven(data / "sts"), load_dataset("retrieval/scifact", data)
        short = sts[0].sentences[:SHORT_TEXTS]
        return cls(f"STS, {documents.name}", short, documents.texts[:LONG_TEXTS], sts)


class _Process:
    """An encoder in its process."""

    def __init__(self, make: Callable[[str], Encodes], model: str) -> None:
        start = perf_counter()
        self._encoder = make(model)
        self._load_s = perf_counter() - start

    def encode(self, texts: Sequence[str]) -> Matrix:
        return self._encoder.encode(texts)

    def seconds(self, texts: Sequence[str]) -> float:
        start = perf_counter()
        self._encoder.encode(texts)
        return perf_counter() - start

    def seconds_each(self, texts: Sequence[str]) -> list[float]:
        return [self.seconds([text]) for text in texts]

    def facts(self) -> Row:
        """Seconds to load, the encoder in use, and the peak memory of the process."""
        runtime = getattr(self._encoder, "runtime", None)
        return {"load_s": self._load_s, "peak_bytes": peak_memory(), "runtime": runtime}


class _Products:
    """Bare matrix products of a model's shape, the limit of every encoder.

    The faster of torch and OpenVINO counts; which that is depends on the processor. Neither has
    products in int8 that include no quantising.
    """

    def __init__(self, width: int) -> None:
        import torch

        openvino = openvino_library()
        ops = openvino.opset13
        self._flops = 2 * PRODUCT_ROWS * width * 4 * width
        a = np.random.default_rng(0).random((PRODUCT_ROWS, width), dtype=np.float32)
        b = np.random.default_rng(1).random((width, 4 * width), dtype=np.float32)
        given = ops.parameter(list(a.shape), openvino.Type.f32)
        model = openvino.Model([ops.matmul(given, ops.constant(b), False, False)], [given])
        ours, theirs = torch.from_numpy(a), torch.from_numpy(b)
        self._ways: dict[str, list[Callable[[], object]]] = {
            "fp32": [partial(torch.matmul, ours, theirs)],
            "bf16": [partial(torch.matmul, ours.bfloat16(), theirs.bfloat16())],
        }
        for precision, ways in self._ways.items():
            options = {"INFERENCE_PRECISION_HINT": HINTS.get(precision, "f32")}
            request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()
            ways.append(partial(request.infer, [a], share_inputs=True, share_outputs=True))

    def rate(self, precision: str) -> float:
        """Floating-point operations per second."""
        return max(map(self._rate, self._ways[precision]))

    def _rate(self, product: Callable[[], object]) -> float:
        for _ in range(3):
            product()
        count, start = 0, perf_counter()
        while (seconds := perf_counter() - start) < RATE_SECONDS:
            product()
            count += 1
        return count * self._flops / seconds


def measure_encoders(
    model: str, folder: Path, texts: Texts, results: ResultsFile, about: Row
) -> list[str]:
    """Write a row for each encoder; returns a line for each failure.

    `folder` has the model named `model`, for the other libraries.
    """
    reference = open_local(model, precision="fp32")
    tokens = {size: reference.count_tokens(getattr(texts, size)) for size in ("short", "long")}
    missing = missing_contenders(model)
    chosen = [contender for contender in CONTENDERS if contender.name not in missing]
    with ExitStack() as stack:
        asked = list[Contender[_Process]]()
        for each in chosen:
            row: Row = {"model": Path(model).name, "texts": texts.name, "encoder": each.name}
            process = stack.enter_context(Subprocess(_Process, each.make, str(folder)))
            row |= {"key": key_of(row)}
            asked.append(Contender(name=each.name, row=row, process=process))
        products = stack.enter_context(Subprocess(_Products, reference.dim))
        rates = dict.fromkeys(("fp32", "bf16"), 0.0)

        def rate() -> None:
            for precision, best in rates.items():
                rates[precision] = max(best, products.remote.rate(precision))

        def encode(contender: Contender[_Process], turn: int) -> None:
            _one_round(contender, texts, turn)

        in_turns(asked, encode, "in turns", ROUNDS + 1, rate)  # the first round is to warm up
        precisions = {each.name: each.precision for each in chosen}

        def finish(contender: Contender[_Process], _: int) -> None:
            contender.row |= _speed(contender, tokens, texts) | contender.process.remote.facts()
            precision = contender.row["runtime"] or precisions[contender.name]
            contender.row |= _shares(contender.row, precision, rates, reference.flops_per_token)
            contender.row |= _quality(contender.process.remote, texts)
            contender.row["peak_bytes"] = contender.process.remote.facts()["peak_bytes"]

        in_turns(asked, finish, "quality")
    return replace_rows(results, asked, about)


def _one_round(contender: Contender[_Process], texts: Texts, turn: int) -> None:
    single = texts.short[turn * SINGLE_TEXTS : (turn + 1) * SINGLE_TEXTS]
    few = texts.short[:WARM_UP]
    short, long = (texts.short, texts.long) if turn else (few, texts.long[:WARM_UP])
    process = contender.process.remote
    took = {
        "single": process.seconds_each(single or few),
        "short": [process.seconds(short)],
        "long": [process.seconds(long)],
    }
    for part, seconds in took.items() if turn else ():
        contender.seconds[part] += seconds


def _speed(contender: Contender[_Process], tokens: dict[str, int], texts: Texts) -> Row:
    """Texts and tokens per second: medians of the rounds."""
    row: Row = {}
    for size in ("short", "long"):
        seconds = statistics.median(contender.seconds.pop(size))
        row[f"{size}_texts"] = len(getattr(texts, size))
        row[f"{size}_tokens"] = tokens[size]
        row[f"{size}_texts_per_s"] = row[f"{size}_texts"] / seconds
        row[f"{size}_tokens_per_s"] = tokens[size] / seconds
    return row


def _shares(row: Row, precision: str, rates: dict[str, float], flops: int) -> Row:
    """Share of the matrix products' rate that is reached, counting the weights' products only."""
    precision = precision.rpartition(", ")[2]
    rate = rates.get(precision)
    shares: Row = {"flops_per_token": flops, "product_flops": rate, "precision": precision}
    if rate:
        for size in ("short", "long"):
            shares[f"{size}_share"] = row[f"{size}_tokens_per_s"] * flops / rate
    return shares


def _quality(process: _Process, texts: Texts) -> Row:
    row: Row = {}
    for pairs in texts.sts:
        sentences = pairs.sentences
        vectors = dict(zip(sentences, process.encode(sentences), strict=True))
        row[pairs.name] = spearman(pairs, vectors)
    if row:
        row["sts_average"] = statistics.fmean(row.values())
    return row
