"""Export to ONNX: encoder and reducer in one file, with the tokenizer beside it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress

from ..encoders.tokens import Ids
from ..encoders.transformer import TransformerEncoder
from ..extras import require
from .reduced_model import ReducedModel, definition_of

if TYPE_CHECKING:
    from torch import nn

MODEL, TOKENIZER, SETTINGS = "model.onnx", "tokenizer.json", "settings.json"
INPUTS, OUTPUT = ("input_ids", "attention_mask"), "vectors"
OPSET = 18
"""ONNX operator set, which onnxruntime has supported since 2023."""
MOST_BYTES = (1 << 31) - (1 << 24)
"""Limit of the weights, below the size limit of a protocol buffer file."""
LONGEST_PROBE = 300
"""Tokens of the longest text to test a file of word vectors on."""
TOLERANCE = 2e-5
"""Largest relative difference from torch's vectors."""


def write(model: ReducedModel, folder: Path) -> list[str]:
    """Write `model.onnx`, `tokenizer.json` and `settings.json`.

    The tokenizer truncates and pads. The settings hold the maximum length and the prompts.
    Vectors from onnxruntime are compared with torch's. Returns no notes.

    Raises `InputError` if a library is missing, the tokenizer is written in Python, or
    the network is too large for a file or gives different vectors in onnxruntime.
    """
    require("to='onnx'", "export", "onnx", "onnxruntime", "torch", "transformers")
    _write_tokenizer(model, folder)
    from .onnx_networks import network_of

    network = network_of(model)
    _check_size(network)
    progress("exporting", 1, 3)
    _trace(network, folder / MODEL)
    progress("exporting", 2, 3)
    _check_vectors(network, folder / MODEL, *_limits(model))
    progress("exporting", 3, 3)
    return []


def _write_tokenizer(model: ReducedModel, folder: Path) -> None:
    """Write `tokenizer.json`, which truncates as slimdex does, and `settings.json`."""
    from tokenizers import Tokenizer

    encoder, prompts = model.encoder, ("", "")
    length: int | None = None
    if isinstance(encoder, TransformerEncoder):
        if not hasattr(encoder.tokenizer, "to_str"):
            raise InputError(
                "to='onnx', a tokenizer written in Python; expected one of the library tokenizers"
            )
        tokenizer = Tokenizer.from_str(_definition(encoder))
        length, prompts = encoder.max_length, (encoder.prompts.query, encoder.prompts.document)
        side = (encoder.tokenizer.truncation or {}).get("direction", "right")
        tokenizer.enable_truncation(length, direction=side)
        tokenizer.enable_padding(pad_id=encoder.pad_id, pad_token=_token(encoder))
    else:
        tokenizer = Tokenizer.from_str(definition_of(encoder))
        tokenizer.enable_padding()
    tokenizer.save(str(folder / TOKENIZER))
    settings = {
        "inputs": INPUTS,
        "output": OUTPUT,
        "dim": model.dim,
        "max_length": length,
        "query_prompt": prompts[0],
        "document_prompt": prompts[1],
    }
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _definition(encoder: TransformerEncoder) -> str:
    """Tokenizer as JSON, with lower-casing added if slimdex does that before."""
    definition = json.loads(encoder.tokenizer.to_str())
    if encoder.folder.lower_case:
        parts = [{"type": "Lowercase"}, *filter(None, [definition["normalizer"]])]
        definition["normalizer"] = {"type": "Sequence", "normalizers": parts}
    return json.dumps(definition, ensure_ascii=False)


def _token(encoder: TransformerEncoder) -> str:
    return str(encoder.tokenizer.id_to_token(encoder.pad_id))


def _limits(model: ReducedModel) -> tuple[int, int]:
    """Number of token ids, and tokens of the longest text to test."""
    encoder = model.encoder
    if isinstance(encoder, TransformerEncoder):
        return int(encoder.tokenizer.get_vocab_size()), encoder.max_length
    return encoder.vectors.tokens, LONGEST_PROBE


def _check_size(network: nn.Module) -> None:
    size = sum(tensor.numel() * tensor.element_size() for tensor in network.parameters())
    if size > MOST_BYTES:
        raise InputError(
            f"to='onnx', {size:,} bytes of weights; expected at most {MOST_BYTES:,}, the limit "
            "of a file"
        )


def _trace(network: nn.Module, path: Path) -> None:
    """Write the file with torch's tracing exporter, as the conversion for OpenVINO does.

    Its newer exporter requires a further library and takes six times as long, for the same vectors.
    """
    import torch

    axes = {name: {0: "batch", 1: "length"} for name in INPUTS} | {OUTPUT: {0: "batch"}}
    example = (torch.full((2, 5), 1), torch.tensor([[1] * 5, [1, 1, 1, 1, 0]]))
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # tracing warns about every shape
            torch.onnx.export(
                network,
                example,
                str(path),
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                dynamic_axes=axes,
                opset_version=OPSET,
                dynamo=False,
            )
    except OSError:
        raise
    except Exception as error:  # traced model code may raise anything
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"to='onnx': {reason}; expected a network that can be traced") from error


def _check_vectors(network: nn.Module, path: Path, vocabulary: int, longest: int) -> None:
    """Raise `InputError` unless onnxruntime gives torch's vectors."""
    import onnxruntime

    from ..encoders.runtimes.torch_runtime import largest_difference

    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def run(ids: Ids, mask: Ids) -> Matrix:
        output: Matrix = session.run(None, dict(zip(INPUTS, (ids, mask), strict=True)))[0]
        return output

    error = largest_difference(network, run, vocabulary, longest)
    if not error <= TOLERANCE:
        raise InputError(
            f"to='onnx': vectors differ by {error:.1e} from torch's; expected a network that can "
            "be traced"
        )
