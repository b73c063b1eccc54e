"""Encoders of several libraries, each behind one method.

ONNX Runtime gets float32 networks that are exported from the same weights. Its vectors are means of
the last hidden states.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.model_folder import read_folder
from slimdex.retrieval.encoders.opening import is_static
from slimdex.retrieval.encoders.tokens import DEFAULT_LENGTH, Tokenizer
from slimdex.system.extras import install_command

from ..datasets import open_local
from ..machine import peak_memory
from ..rows import Row

BATCH = 32
"""Texts in a batch, as in sentence-transformers."""
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
        # Its peak memory is measured in a process that has no other library.
        from sentence_transformers import SentenceTransformer

        options: dict[str, Any] = {"model_kwargs": {"dtype": precision}} if precision else {}
        self._model = SentenceTransformer(model, **options)

    def encode(self, texts: Sequence[str]) -> Matrix:
        vectors: Matrix = self._model.encode(list(texts), show_progress_bar=False)
        return vectors


class OnnxRuntime:
    """ONNX Runtime: batches of texts of similar length, and means of their hidden states.

    Parameters
    ----------
    int8 : whether weights and products are quantised, by ONNX Runtime's own tool.
    """

    def __init__(self, model: str, *, int8: bool = False) -> None:
        # Of the extra `peers`, and in no process but the one that measures it.
        import onnxruntime
        import tokenizers

        # Export the network to a temporary file, and load it.
        folder = Path(model)
        with TemporaryDirectory() as temporary:
            path = Path(temporary) / "model.onnx"
            export(folder, path)
            if int8:
                from onnxruntime.quantization import quantize_dynamic  # loads onnx

                quantize_dynamic(path, path.with_name("int8.onnx"))
                path = path.with_name("int8.onnx")
            self._session: Any = onnxruntime.InferenceSession(path)

        # Load the tokenizer; the model and its number of positions limit the tokens.
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = json.loads((folder / "config.json").read_text())
        longest = read_folder(folder, skip_pooling=True).max_length or DEFAULT_LENGTH
        length = min(longest, config["max_position_embeddings"])
        self._tokenizer = Tokenizer(tokenizer, pad_id=0, max_length=length)

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Encode texts in batches of similar length, since shorter texts are padded."""
        ids = self._tokenizer.ids(texts)
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        vectors = []
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            vectors.append(self._means([ids[i] for i in batch]))

        # Restore the order of the texts.
        out: Matrix = np.concatenate(vectors)[np.argsort(order)]
        return out

    def _means(self, ids: Sequence[list[int]]) -> Matrix:
        """Run the network on the token ids of a batch; return the means of its states (n, dim)."""
        # Pad the token ids with zeros to (n, longest); the mask is 1 for tokens, 0 for padding.
        lengths = np.array([len(ids_of_text) for ids_of_text in ids])
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        padded = np.zeros_like(mask)
        padded[mask == 1] = np.concatenate(ids)

        # Average over the tokens, without the padding.
        (states,) = self._session.run(None, dict(zip(INPUTS, (padded, mask), strict=True)))
        weights = mask[:, :, None].astype(np.float32)
        means: Matrix = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return means


def export(folder: Path, out: Path) -> None:
    """Write the network of hidden states of a model's folder to a file in ONNX."""
    # Only the export to ONNX needs them; the process that runs the network is measured without.
    import torch
    from transformers import AutoModel

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.network(ids, attention_mask=mask).last_hidden_state
            return states

    example = (torch.full((2, 5), 1), torch.tensor([[1] * 5, [1, 1, 1, 1, 0]]))
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # tracing warns about every shape
        torch.onnx.export(
            States(),
            example,
            str(out),
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in (*INPUTS, OUTPUT)},
            opset_version=OPSET,
            dynamo=False,
        )


Make = Callable[[str], Encodes]
"""Makes an encoder of a model's folder."""


def _slimdex(precision: str) -> tuple[Make, tuple[str, ...]]:
    """Return the maker of slimdex's encoder; it requires no further packages."""
    return partial(open_local, precision=precision), ()


CONTENDERS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "slimdex auto": _slimdex("auto"),
    "slimdex fp32": _slimdex("fp32"),
    "slimdex bf16": _slimdex("bf16"),
    "slimdex int8": _slimdex("int8"),
    "sentence-transformers": (partial(_SentenceTransformers, precision=""), ST),
    "sentence-transformers bf16": (partial(_SentenceTransformers, precision="bfloat16"), ST),
    "ONNX Runtime": (OnnxRuntime, ONNX),
    "ONNX Runtime int8": (partial(OnnxRuntime, int8=True), ONNX),
}
"""Encoders with the packages that they require, first slimdex by default."""
FOR_WORD_VECTORS = ("slimdex auto", "sentence-transformers")
"""Contenders that also take word vectors; the others run transformers only."""


def missing_contenders(model: str) -> dict[str, str]:
    """Map contenders that can't take part to the reason."""
    missing = {}
    has_word_vectors = is_static(model)
    for name, (_, packages) in CONTENDERS.items():
        absent = [package for package in packages if find_spec(package) is None]
        if absent:
            missing[name] = f"not installed: {', '.join(absent)}; {install_command('peers')}"
        elif has_word_vectors and name not in FOR_WORD_VECTORS:
            missing[name] = "runs no word vectors"
    return missing


class EncoderProcess:
    """An encoder in its own process, which imports only this file, so its memory is measured."""

    def __init__(self, make: Callable[[str], Encodes], model: str) -> None:
        start = perf_counter()
        self._encoder = make(model)
        self._load_s = perf_counter() - start

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Encode texts to vectors (n, dim)."""
        return self._encoder.encode(texts)

    def seconds(self, texts: Sequence[str]) -> float:
        """Time the encoding of all texts."""
        start = perf_counter()
        self._encoder.encode(texts)
        return perf_counter() - start

    def seconds_each(self, texts: Sequence[str]) -> list[float]:
        """Time texts one at a time."""
        return [self.seconds([text]) for text in texts]

    def facts(self) -> Row:
        """Seconds to load, the encoder in use, and the peak memory of the process."""
        runtime = getattr(self._encoder, "runtime", None)
        return {"load_s": self._load_s, "peak_bytes": peak_memory(), "runtime": runtime}
