"""`slimdex bench encode`: speed of encoding, compared with other libraries.

All encoders get the same texts in turns, round after round.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from slimdex.retrieval.encoders.transformer import TransformerEncoder

from ..datasets import DOCSTRINGS, load_dataset, open_local
from ..engines.encoders import CONTENDERS, EncoderProcess, missing_contenders
from ..engines.processes import Contender, Subprocess, in_turns, replace_rows
from ..rows import ResultsFile, Row, key_of
from .similarity_study import Pairs, read_seven, spearman

LIBRARIES = ("openvino", "sentence-transformers", "onnxruntime")
"""Packages whose versions the rows have."""
ROUNDS = 4
SHORT_TEXTS = 2000
LONG_TEXTS = 200
SINGLE_TEXTS = 50
"""Texts in a round: sentences, documents, and sentences encoded one at a time."""
WARM_UP = 20


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
        sts = read_seven(data / "sts")
        documents = load_dataset("retrieval/scifact", data)
        short = sts[0].sentences[:SHORT_TEXTS]
        return cls(f"STS, {documents.name}", short, documents.texts[:LONG_TEXTS], sts)


def measure_encoders(
    model: str, folder: Path, texts: Texts, results: ResultsFile, about: Row
) -> list[str]:
    """Write a row for each encoder; returns a line for each failure.

    `folder` has the model named `model`, for the other libraries.
    """
    reference = open_local(model, precision="fp32")
    assert isinstance(reference, TransformerEncoder)
    tokens = {size: reference.count_tokens(getattr(texts, size)) for size in ("short", "long")}
    missing = missing_contenders(model)
    with ExitStack() as stack:
        contenders = list[Contender[EncoderProcess]]()
        for name, (make, _) in CONTENDERS.items():
            if name in missing:
                continue
            row: Row = {"model": Path(model).name, "texts": texts.name, "encoder": name}
            process = stack.enter_context(Subprocess(EncoderProcess, make, str(folder)))
            row |= {"key": key_of(row)}
            contenders.append(Contender(name=name, row=row, process=process))

        def encode(contender: Contender[EncoderProcess], turn: int) -> None:
            _one_round(contender, texts, turn)

        in_turns(contenders, encode, "in turns", ROUNDS + 1)  # the first round is to warm up

        def finish(contender: Contender[EncoderProcess], _: int) -> None:
            contender.row |= _speed(contender, tokens, texts) | contender.process.remote.facts()
            contender.row |= _quality(contender.process.remote, texts)
            # Read the peak again, since the texts for quality may have taken more memory.
            contender.row["peak_bytes"] = contender.process.remote.facts()["peak_bytes"]

        in_turns(contenders, finish, "quality")
    return replace_rows(results, contenders, about)


def _one_round(contender: Contender[EncoderProcess], texts: Texts, turn: int) -> None:
    """Time one round: some short texts one by one, then all short and all long texts.

    Round 0 only warms up: it encodes a few texts, and its times are not counted.
    """
    process = contender.process.remote
    few = texts.short[:WARM_UP]
    if turn == 0:
        process.seconds_each(few)
        process.seconds(few)
        process.seconds(texts.long[:WARM_UP])
        return
    # Take new texts in each round; if there are too few, the first ones again.
    single = texts.short[turn * SINGLE_TEXTS : (turn + 1) * SINGLE_TEXTS] or few
    contender.seconds["single"] += process.seconds_each(single)
    contender.seconds["short"].append(process.seconds(texts.short))
    contender.seconds["long"].append(process.seconds(texts.long))


def _speed(contender: Contender[EncoderProcess], tokens: dict[str, int], texts: Texts) -> Row:
    """Return the texts and tokens per second: medians of the rounds."""
    row: Row = {}
    for size in ("short", "long"):
        seconds = statistics.median(contender.seconds.pop(size))
        row[f"{size}_texts"] = len(getattr(texts, size))
        row[f"{size}_tokens"] = tokens[size]
        row[f"{size}_texts_per_s"] = row[f"{size}_texts"] / seconds
        row[f"{size}_tokens_per_s"] = tokens[size] / seconds
    return row


def _quality(process: EncoderProcess, texts: Texts) -> Row:
    """Return Spearman's correlation in each STS set, and their average; empty without sets."""
    row: Row = {}
    for pairs in texts.sts:
        sentences = pairs.sentences
        vectors = dict(zip(sentences, process.encode(sentences), strict=True))
        row[pairs.name] = spearman(pairs, vectors)
    if row:
        row["sts_average"] = statistics.fmean(row.values())
    return row
