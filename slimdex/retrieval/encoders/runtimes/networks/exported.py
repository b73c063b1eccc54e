"""Networks that a model's folder holds ready-made: in ONNX, or as an OpenVINO model."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

from slimdex.retrieval.user_cache import known_sha256

from ...folder_checks import read_json
from ...pooling import Pooling
from ...sentence_folder import SentenceFolder
from ..cache import Conversion, Facts
from ..openvino_library import openvino_library
from .architectures import architecture_of
from .folder_tokenizer import folder_tokenizer
from .operations import Node, ops, scalar, width
from .sentence_vectors import POOLERS, pool, with_head

PLACES = ("openvino/openvino_model.xml", "onnx/model.onnx")
MOST_TOKENS = 1 << 30
"""Maximum length for a model that states none."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
HIDDEN = ("last_hidden_state", "token_embeddings")
"""Usual names of the output."""


def exported_file(folder: Path, pooling: Pooling) -> Path | None:
    """File of a folder's network, if it has one and its network can't be built from weights.

    Other layers than the last are not part of the file: for them it is not used.
    """
    if pooling.mode not in POOLERS or pooling.needs_all_layers:
        return None
    is_built = architecture_of(_config(folder)) is not None and any(folder.glob("*.safetensors"))
    files = (folder / place for place in PLACES if not is_built)
    return next((file for file in files if file.is_file()), None)


def exported_sha256(path: Path) -> str:
    """SHA-256 of the SHA-256s of a network's file and of those beside it with its weights."""
    files = (path, path.with_suffix(".bin"), path.with_name(f"{path.name}_data"))
    found = [known_sha256(file) for file in files if file.is_file()]
    return hashlib.sha256("".join(found).encode()).hexdigest()


def exported_network(path: Path, folder: SentenceFolder, pooling: Pooling) -> Conversion:
    """Read a network, and add pooling and head.

    Raises `ValueError` if it is not an encoder with one hidden state, or its tokenizer is missing.
    """
    library = openvino_library()
    read = folder_tokenizer(folder.transformer)
    if read is None:
        raise ValueError("no tokenizer.json")
    model = library.Core().read_model(path)
    hidden = _hidden(model)
    ids, mask = _filled(model)
    config = _config(folder.transformer)
    vectors = with_head(pool([hidden], mask, pooling), folder.head)
    tokenizer, longest = read
    positions = config.get("max_position_embeddings")
    facts = Facts(
        dim=width(vectors),
        width=width(hidden),
        layers=int(config.get("num_hidden_layers") or 0),
        longest=int(min(longest, positions if isinstance(positions, int) else MOST_TOKENS)),
        pad_id=int(config.get("pad_token_id") or 0),
        flops_per_token=2 * _multiplied_weights(library.Model([hidden], [ids, mask])),
    )
    return Conversion(facts, tokenizer, library.Model([vectors], [ids, mask]))


def _hidden(model: Any) -> Node:
    """Output (batch, seq, width): by its name, or the only one of three axes."""
    outputs = [port for port in model.outputs if len(port.get_partial_shape()) == 3]
    named = [port for port in outputs if port.get_names() & set(HIDDEN)]
    if len(found := named or outputs) != 1:
        raise ValueError(f"{len(found)} outputs of three axes; expected one hidden state")
    return ops().convert(found[0].get_node().input_value(0), "f32")


def _filled(model: Any) -> list[Node]:
    """Token ids and mask, the only inputs that remain.

    Token types are zero, and positions count the tokens.
    """
    given = dict[str, Node]()
    for port in model.inputs:
        names = port.get_names()
        given[next((name for name in INPUTS if name in names), port.get_any_name())] = port
    if not {"input_ids", "attention_mask"} <= set(given) <= set(INPUTS):
        raise ValueError(f"inputs {', '.join(given)}; expected some of {', '.join(INPUTS)}")
    ids, mask = (given.pop(name).get_node() for name in INPUTS[:2])
    for name, port in given.items():
        kind = port.get_element_type()
        value = ops().broadcast(ops().constant(0, kind), ops().shape_of(ids))
        if name == "position_ids":
            counted = ops().cum_sum(ops().convert(mask, kind), scalar(1))
            value = ops().subtract(counted, ops().constant(1, kind))
        port.get_node().output(0).replace(value.output(0))
    return [ids, mask]


def _multiplied_weights(model: Any) -> int:
    """Number of weights that a model multiplies each token with."""
    count = 0
    for node in model.get_ordered_ops():
        if node.get_type_name() == "MatMul":
            shape = node.input(1).get_partial_shape()
            count += math.prod(shape.to_shape()) if len(shape) == 2 and shape.is_static else 0
    return count


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    found: dict[str, Any] = read_json(path) if path.is_file() else {}
    return found
