"""`slimdex bench encode`: how fast texts become vectors, beside what people use.

Every encoder runs in a process of its own; all get the same texts in turns, round after round,
and the rate of bare matrix products is measured in the same rounds.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.progress import progress
from slimdex.retrieval.encoders.opened import open_encoder
from slimdex.retrieval.encoders.openvino_library import openvino_library
from slimdex.retrieval.evaluation import latency

from ..data.datasets import DOCSTRINGS, Dataset, load_dataset
from ..data.pairs import Pairs, read_seven, spearman
from ..engines.encoders import CONTENDERS, Contender, Encodes, missing_contenders
from ..engines.remote_object import Subprocess, WorkerError
from ..machine import peak_memory
from ..rows import ResultsFile, Row, key_of

ROUNDS = 4
SHORT_TEXTS, LONG_TEXTS, SINGLE_TEXTS = 2000, 200, 50
"""Texts in a round: sentences, documents, and sentences encoded one at a time."""
QUICK = 10
"""A quick run has so many times fewer."""
WARM_UP = 20
PRODUCT_ROWS = 4096
RATE_SECONDS = 0.5


@dataclass(frozen=True)
class Texts:
    """Texts to encode.

    Attributes
    ----------
    sts : sets that the vectors are judged by; none for speed alone.
    """

    name: str
    short: Sequence[str]
    long: Sequence[str]
    sts: Sequence[Pairs] = field(default=())

    @classmethod
    def read(cls, data: Path | None, *, quick: bool) -> Texts:
        """Those of a folder with sts and retrieval/scifact; None: Python's docstrings."""
        if data is None:
            found = cls.of_docstrings(load_dataset(DOCSTRINGS, None))
        else:
            found = cls.of_sets(read_seven(data / "sts"), load_dataset("retrieval/scifact", data))
        return found.quick() if quick else found

    @classmethod
    def of_sets(cls, sts: Sequence[Pairs], documents: Dataset) -> Texts:
        """STS-B's sentences are the short texts, a collection's documents the long ones."""
        short = sts[0].sentences[:SHORT_TEXTS]
        return cls(f"STS, {documents.name}", short, documents.texts[:LONG_TEXTS], sts)

    @classmethod
    def of_docstrings(cls, docstrings: Dataset) -> Texts:
        """First paragraphs of docstrings are the short texts, what follows them the long ones."""
        short = list(dict.fromkeys(docstrings.query_texts))[:SHORT_TEXTS]
        return cls(docstrings.name, short, docstrings.texts[:LONG_TEXTS])

    def quick(self) -> Texts:
        """A small part, for a first look."""
        return Texts(
            f"{self.name} (quick)",
            self.short[: SHORT_TEXTS // QUICK],
            self.long[: LONG_TEXTS // QUICK],
            self.sts[:1],
        )


class _Process:
    """What runs in an encoder's process."""

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
        """Seconds to load, what ran, and the most memory that the process has held."""
        runtime = getattr(self._encoder, "runtime", None)
        return {"load_s": self._load_s, "peak_bytes": peak_memory(), "runtime": runtime}


class _Products:
    """Bare matrix products of a model's shape: the limit that every encoder is held against.

    The faster of torch and OpenVINO counts: which one that is depends on the processor.
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
        self._ways: dict[str, list[Callable[[], object]]] = {}
        for precision, hint, dtype in (
            ("fp32", "f32", torch.float32),
            ("bf16", "bf16", torch.bfloat16),
        ):
            options = {"INFERENCE_PRECISION_HINT": hint}
            request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()
            ours, theirs = torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype)
            self._ways[precision] = [
                partial(request.infer, [a], share_inputs=True, share_outputs=True),
                partial(torch.matmul, ours, theirs),
            ]

    def rate(self, precision: str) -> float:
        """Floating-point operations a second."""
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
    """Write a row for each encoder; returns what failed.

    Figures are comparable within a run only, so that a run replaces all rows of the one before.

    Parameters
    ----------
    folder : of the model named `model`, for the other libraries.
    """
    reference = open_encoder(model, precision="fp32")
    tokens = {size: reference.count_tokens(getattr(texts, size)) for size in ("short", "long")}
    missing = missing_contenders(model)
    chosen = [contender for contender in CONTENDERS if contender.name not in missing]
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        processes = {
            c.name: stack.enter_context(Subprocess(_Process, c.make, str(folder))) for c in chosen
        }
        products = stack.enter_context(Subprocess(_Products, reference.dim))
        seconds, rates = _timed(processes, products, texts, failed)
        rows = []
        for done, contender in enumerate(chosen, start=1):
            process = processes[contender.name]
            row: Row = {"model": Path(model).name, "texts": texts.name, "encoder": contender.name}
            row["key"] = key_of(row)
            if contender.name not in failed:
                found = seconds[contender.name]
                try:
                    row |= _speed(found, tokens, texts) | process.ask("facts")
                    row |= _shares(row, contender, rates, reference.flops_per_token)
                    row |= _quality(process, texts)
                    row["peak_bytes"] = process.ask("facts")["peak_bytes"]
                except WorkerError as error:
                    failed[contender.name] = str(error)
            if contender.name in failed:
                row["error"] = failed[contender.name]
            rows.append(row | about)
            progress("quality", done, len(chosen))
    results.replace(rows)
    return [f"{name} failed: {reason}" for name, reason in failed.items()]


def _timed(
    processes: dict[str, Subprocess], products: Subprocess, texts: Texts, failed: dict[str, str]
) -> tuple[dict[str, dict[str, list[float]]], dict[str, float]]:
    """Seconds of each encoder by what it did, and the rates of matrix products by precision."""
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rates: dict[str, list[float]] = defaultdict(list)
    for turn in range(ROUNDS + 1):  # the first is to warm up
        for name, process in processes.items():
            if name in failed:
                continue
            try:
                took = _one_round(process, texts, turn)
            except WorkerError as error:
                failed[name] = str(error)
                continue
            for what, found in took.items():
                seconds[name][what] += found if turn else []
        for precision in ("fp32", "bf16"):
            rates[precision].append(products.ask("rate", precision))
        progress("in turns", turn + 1, ROUNDS + 1)
    return seconds, {precision: max(found) for precision, found in rates.items()}


def _one_round(process: Subprocess, texts: Texts, turn: int) -> dict[str, list[float]]:
    single = texts.short[turn * SINGLE_TEXTS : (turn + 1) * SINGLE_TEXTS]
    few = texts.short[:WARM_UP]
    short, long = (texts.short, texts.long) if turn else (few, texts.long[:WARM_UP])
    return {
        "single": process.ask("seconds_each", single or few),
        "short": [process.ask("seconds", short)],
        "long": [process.ask("seconds", long)],
    }


def _speed(found: dict[str, list[float]], tokens: dict[str, int], texts: Texts) -> Row:
    """Texts and tokens a second (medians of the rounds), and single sentences' times."""
    row: Row = {f"{measure}_single": value for measure, value in latency(found["single"]).items()}
    for size in ("short", "long"):
        seconds = statistics.median(found[size])
        row[f"{size}_texts"] = len(getattr(texts, size))
        row[f"{size}_tokens"] = tokens[size]
        row[f"{size}_texts_per_s"] = row[f"{size}_texts"] / seconds
        row[f"{size}_tokens_per_s"] = tokens[size] / seconds
    return row


def _shares(row: Row, contender: Contender, rates: dict[str, float], flops: int) -> Row:
    """The share of the matrix products' rate that is reached, by the weights' products alone."""
    precision = (row["runtime"] or contender.precision).rpartition(", ")[2]
    rate = rates.get(precision)
    shares: Row = {"flops_per_token": flops, "product_flops": rate, "precision": precision}
    if rate:
        for size in ("short", "long"):
            shares[f"{size}_share"] = row[f"{size}_tokens_per_s"] * flops / rate
    return shares


def _quality(process: Subprocess, texts: Texts) -> Row:
    row: Row = {}
    for pairs in texts.sts:
        sentences = pairs.sentences
        vectors = dict(zip(sentences, process.ask("encode", sentences), strict=True))
        row[pairs.name] = spearman(pairs, vectors)
    if row:
        row["sts_average"] = statistics.fmean(row.values())
    return row
