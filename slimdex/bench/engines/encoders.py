"""Encoders of several libraries, each behind one method.

ONNX Runtime gets float32 networks that are exported from the same weights. Its vectors are means of
the last hidden states.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.model_folder import read_folder
from slimdex.retrieval.encoders.opening import is_static
from slimdex.retrieval.encoders.tokens import DEFAULT_LENGTH, Tokenizer
from slimdex.system.extras import extra_of, install_command

from ..datasets import open_local

PEERS = "peers"
"""Extra with the packages of other encoders."""
BATCH = 32
"""Texts in a batch, as in sentence-transformers."""
MODEL = "model.onnx"
ST = ("sentence_transformers",)
ONNX = ("onnxruntime", "onnx")
INPUTS = ("input_ids", "attention_mask")
OUTPUT = "last_hidden_state"
OPSET = 18


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


class OnnxRuntime:
    """ONNX Runtime: batches of texts of similar length, and means of their hidden states.

    Parameters
    ----------
    int8 : whether weights and products are quantised, by ONNX Runtime's own tool.
    """

    def __init__(self, model: str, *, int8: bool = False) -> None:
        import onnxruntime
        import tokenizers

        folder = Path(model)
        with TemporaryDirectory() as made:
            path = exported(folder, Path(made))
            if int8:
                from onnxruntime.quantization import quantize_dynamic

                quantize_dynamic(path, path.with_name("int8.onnx"))
                path = path.with_name("int8.onnx")
            self._session: Any = onnxruntime.InferenceSession(path)
        found = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer = Tokenizer(found, pad_id=0, max_length=longest_text(folder))

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Encode batches of similar length."""
        ids = self._tokenizer.ids(texts)
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        parts = [order[low : low + BATCH] for low in range(0, len(order), BATCH)]
        vectors = [self._means([ids[i] for i in part]) for part in parts]
        out: Matrix = np.concatenate(vectors)[np.argsort(order)]
        return out

    def _means(self, ids: Sequence[list[int]]) -> Matrix:
        lengths = np.array([len(one) for one in ids])
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        padded = np.zeros_like(mask)
        padded[mask == 1] = np.concatenate(ids)
        (states,) = self._session.run(None, dict(zip(INPUTS, (padded, mask), strict=True)))
        weights = mask[:, :, None].astype(np.float32)
        means: Matrix = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return means


def longest_text(folder: Path) -> int:
    """Maximum length of a text in tokens: the folder's or the default, within the model's."""
    positions: int = _config(folder)["max_position_embeddings"]
    return min(read_folder(folder, pooling_given=True).max_length or DEFAULT_LENGTH, positions)


def _config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def exported(folder: Path, out: Path) -> Path:
    """Write the network of hidden states in ONNX, with settings and tokenizer; return the file."""
    import torch
    from transformers import AutoModel

    for file in folder.glob("*.json"):
        shutil.copy(file, out)
    settings = out / "tokenizer_config.json"
    about = json.loads(settings.read_text()) | {"model_max_length": longest_text(folder)}
    settings.write_text(json.dumps(about))

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.network(ids, attention_mask=mask).last_hidden_state
            return found

    example = (torch.full((2, 5), 1), torch.tensor([[1] * 5, [1, 1, 1, 1, 0]]))
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # tracing warns about every shape
        torch.onnx.export(
            States(),
            example,
            str(out / MODEL),
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in (*INPUTS, OUTPUT)},
            opset_version=OPSET,
            dynamo=False,
        )
    return out / MODEL


@dataclass(frozen=True)
class Entrant:
    """An encoder by name; `make` is given the model's folder.

    Attributes
    ----------
    packages : required packages.
    """

    name: str
    make: Callable[[str], Encodes]
    packages: tuple[str, ...] = ()


def _slimdex(model: str, precision: str) -> Encodes:
    """Load the encoder as a new collection does."""
    return open_local(model, precision=precision)


CONTENDERS = (
    Entrant("slimdex auto", partial(_slimdex, precision="auto")),
    Entrant("slimdex fp32", partial(_slimdex, precision="fp32")),
    Entrant("slimdex bf16", partial(_slimdex, precision="bf16")),
    Entrant("slimdex int8", partial(_slimdex, precision="int8")),
    Entrant("sentence-transformers", partial(_SentenceTransformers, precision=""), ST),
    Entrant("sentence-transformers bf16", partial(_SentenceTransformers, precision="bfloat16"), ST),
    Entrant("ONNX Runtime", OnnxRuntime, ONNX),
    Entrant("ONNX Runtime int8", partial(OnnxRuntime, int8=True), ONNX),
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
        elif has_word_vectors and contender.name not in FOR_WORD_VECTORS:
            missing[contender.name] = "runs no word vectors"
    return missing


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a part of a package that is not there
        return False
