"""Models of the BERT family as a folder has them: weights, settings and tokenizer."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError

from ..model_folder import Dense, HeadPart, SentenceFolder, Truncate, read_json, weight_files
from ..tokens import GROUP_CHARACTERS, read_tokenizer

TOKENIZER = "tokenizer.json"
SETTINGS = ("special_tokens_map.json", "tokenizer_config.json")
"""Files of a tokenizer's settings; the later one counts."""
FARTHEST = 128
"""Distance of tokens from which on biases are equal, in MPNet."""
WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"
Array = NDArray[np.float32]
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types of safetensors that are read -> numpy's; bfloat16 as its bits."""
OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
"""Endings of normalisation weights in old checkpoints -> today's."""
TINY = 1e-12
"""Least length that a vector is divided by."""
KEYS = {
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "activation": "hidden_act",
    "epsilon": "layer_norm_eps",
    "padding": "pad_token_id",
}
DEFAULTS = {"layers": 12, "heads": 12, "activation": "gelu", "epsilon": 1e-12, "padding": 0}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Activations in configurations -> those of `operations`; a model with another is converted."""
PLAIN = {
    "is_decoder": False,
    "position_embedding_type": "absolute",
    "num_hidden_groups": 1,
    "inner_group_num": 1,
}
"""Settings that change the network's structure -> their only value here."""


@dataclass(frozen=True)
class Architecture:
    """Names of an architecture's weights and settings; the defaults are BERT's.

    Attributes
    ----------
    prefix : of all names in a checkpoint with a head for some task.
    layer : prefix of a layer's names.
    query, key, value, attended, attended_norm, inner, outer, outer_norm : weights of a layer.
    projection : from the embeddings' width to the layers', if they differ.
    pooler : layer over the first token.
    relative : table of biases by distance, of models that have one.
    token_types : True if a table of token types belongs to the embeddings.
    counts_padding : True if positions count from the padding token's id, and skip padding.
    keys : settings -> their names in the configuration.
    defaults : settings that a configuration may omit.
    """

    prefix: str
    layer: str = "encoder.layer.{}."
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    attended: str = "attention.output.dense"
    attended_norm: str = "attention.output.LayerNorm"
    inner: str = "intermediate.dense"
    outer: str = "output.dense"
    outer_norm: str = "output.LayerNorm"
    projection: str | None = None
    pooler: str | None = "pooler.dense"
    relative: str | None = None
    token_types: bool = True
    counts_padding: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)


_ROBERTA = Architecture("roberta.", counts_padding=True, defaults={"padding": 1})
ARCHITECTURES = {
    "bert": Architecture("bert."),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "data2vec-text": Architecture("data2vec_text.", counts_padding=True, defaults={"padding": 1}),
    "electra": Architecture(
        "electra.", projection="embeddings_project", pooler=None, defaults={"heads": 4}
    ),
    "distilbert": Architecture(
        "distilbert.",
        layer="transformer.layer.{}.",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        attended="attention.out_lin",
        attended_norm="sa_layer_norm",
        inner="ffn.lin1",
        outer="ffn.lin2",
        outer_norm="output_layer_norm",
        pooler=None,
        token_types=False,
        keys={"layers": "n_layers", "heads": "n_heads", "activation": "activation", "epsilon": ""},
        defaults={"layers": 6},
    ),
    "mpnet": Architecture(
        "mpnet.",
        query="attention.attn.q",
        key="attention.attn.k",
        value="attention.attn.v",
        attended="attention.attn.o",
        attended_norm="attention.LayerNorm",
        relative="encoder.relative_attention_bias.weight",
        token_types=False,
        counts_padding=True,
        keys={"padding": ""},
        defaults={"padding": 1},
    ),
    "albert": Architecture(
        "albert.",
        layer="encoder.albert_layer_groups.0.albert_layers.0.",
        query="attention.query",
        key="attention.key",
        value="attention.value",
        attended="attention.dense",
        attended_norm="attention.LayerNorm",
        inner="ffn",
        outer="ffn_output",
        outer_norm="full_layer_layer_norm",
        projection="encoder.embedding_hidden_mapping_in",
        pooler="pooler",
        defaults={"heads": 64, "activation": "gelu_new"},
    ),
}
"""Model type in a configuration -> architecture."""


@dataclass(frozen=True)
class Shape:
    """Settings of a model.

    Attributes
    ----------
    epsilon : added to variances.
    padding : padding token's id.
    """

    layers: int
    heads: int
    activation: str
    epsilon: float
    padding: int

    @classmethod
    def read(cls, architecture: Architecture, config: Mapping[str, Any]) -> Self:
        """Read a configuration; raise `ValueError` if a value is of the wrong type or size."""
        values = dict[str, Any]()
        for name, usual in DEFAULTS.items():
            default = architecture.defaults.get(name, usual)
            key = architecture.keys.get(name, KEYS[name])
            value = config.get(key) if key else default  # without a key, it is never configured
            value = default if value is None else value
            if type(value) is not type(usual):
                raise ValueError(f"{key}={value!r}; expected {type(usual).__name__}")
            values[name] = value
        if values["heads"] < 1 or values["layers"] < 0:
            raise ValueError(f"{values['layers']} layers, {values['heads']} heads; expected some")
        return cls(**values | {"activation": ACTIVATIONS[values["activation"]]})


def architecture_of(config: Mapping[str, Any]) -> Architecture | None:
    """Return the architecture of a model with this configuration; None if it is unsupported.

    Model types and activations that are not in the tables are unsupported, and so are settings that
    change the structure.
    """
    architecture = ARCHITECTURES.get(str(config.get("model_type")))
    if architecture is None:
        return None
    key = architecture.keys.get("activation", KEYS["activation"])
    activation = config.get(key, DEFAULTS["activation"])
    has_known_activation = isinstance(activation, str) and activation in ACTIVATIONS
    is_plain = all(config.get(name, usual) == usual for name, usual in PLAIN.items())
    return architecture if has_known_activation and is_plain else None


@dataclass(frozen=True)
class Family:
    """Model of the BERT family: architecture, settings and weights."""

    architecture: Architecture
    shape: Shape
    weights: Weights

    @property
    def longest(self) -> int:
        """Maximum length of a text in tokens."""
        rows = len(self.weights[POSITIONS])
        if self.architecture.counts_padding:  # the first token's row follows padding's
            return rows - self.shape.padding - 1
        return rows

    @property
    def width(self) -> int:
        """Width of the layers' hidden states."""
        words = self.weights[WORDS]  # raises an error if they are missing
        norm = self.architecture.layer.format(0) + f"{self.architecture.attended_norm}.weight"
        has_layers = norm in self.weights
        return len(self.weights[norm]) if has_layers else words.shape[1]


def read_family(folder: SentenceFolder) -> Family | None:
    """Read a model's architecture, settings and weights; None if the architecture is unknown."""
    path = folder.transformer / "config.json"
    config = read_json(path) if path.is_file() else {}
    architecture = architecture_of(config)
    if architecture is None:
        return None
    weights = Weights(weight_files(folder.transformer), architecture.prefix)
    return Family(architecture, Shape.read(architecture, config), weights)


def folder_tokenizer(folder: Path) -> tuple[Any, float] | None:
    """Return a tokenizer and its maximum length in tokens; None if only transformers can read it.

    The length is infinite if the folder states none. Raises `InputError` if a file is malformed.
    """
    path = folder / TOKENIZER
    if not path.is_file():
        return None
    settings = dict[str, Any]()
    for name in SETTINGS:
        if (folder / name).is_file():
            settings |= read_json(folder / name)
    tokenizer = read_tokenizer(path)
    side = settings.get("truncation_side", "right")
    tokenizer.enable_truncation(GROUP_CHARACTERS, direction=side)
    longest = settings.get("model_max_length")
    return tokenizer, longest if isinstance(longest, int | float) else float("inf")


class Weights:
    """Tensors of a model by name, of safetensors files that each have some of them.

    Float32 arrays are views of the files; they stay valid as long as they are referenced. Names in
    checkpoints that have more than the encoder lose their prefix, such as ``bert.``.

    Raises `ValueError` if a file is malformed, or a tensor is missing or not made of floats.
    """

    def __init__(self, files: list[Path], prefix: str = "") -> None:
        self._tensors = dict[str, tuple[Path, mmap.mmap, int, Any]]()
        self._maps = list[mmap.mmap]()
        for path in files:
            self._open(path, prefix)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> Array:
        if name not in self._tensors:
            raise ValueError(f"no weights for {name}")
        path, data, start, about = self._tensors[name]

        # View the bytes of the file that its header states for the tensor.
        try:
            kind = np.dtype(DTYPES[about["dtype"]])
            begin, end = about["data_offsets"]  # counted from the end of the header
            shape = tuple(about["shape"])
            array = np.frombuffer(data, kind, (end - begin) // kind.itemsize, start + begin)
            array = array.reshape(shape)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: {name} {about!r}; expected a tensor of floats") from error

        # numpy has no bfloat16: it is the upper half of a float32.
        if about["dtype"] == "BF16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(np.float32, copy=False)

    def get(self, name: str) -> Array | None:
        """Return a tensor; None if it is missing."""
        return None if name not in self._tensors else self[name]

    def release(self) -> None:
        """Drop the files' pages from memory; pages are mapped again when needed."""
        if not hasattr(mmap, "MADV_DONTNEED"):  # as on Windows
            return
        for data in self._maps:
            data.madvise(mmap.MADV_DONTNEED)

    def _open(self, path: Path, prefix: str) -> None:
        """Map a file, and record where its tensors are.

        The file has the size of its header in 8 bytes, the header in JSON, and the tensors' bytes.
        """
        try:
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                # In a damaged file the size may be larger than memory.
                header = json.loads(file.read(min(size, path.stat().st_size)))
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._maps.append(data)

            # Index the tensors by name, without old endings and the prefix of larger models.
            header.pop("__metadata__", None)
            for name, about in header.items():
                for old, new in OLD_ENDINGS.items():
                    if name.endswith(old):
                        name = name.removesuffix(old) + new
                self._tensors[name.removeprefix(prefix)] = (path, data, 8 + size, about)
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path}: {error}; expected safetensors") from error


def head_width(columns: int, head: Sequence[HeadPart]) -> int:
    """Return the dimensions that vectors (batch, columns) have after the head.

    Raises `InputError` if weights are missing or do not fit.
    """
    for part in head:
        if isinstance(part, Dense):
            columns = len(dense(part, columns)[0])
        elif isinstance(part, Truncate):
            columns = min(part.dim, columns)
    return columns


def dense(part: Dense, columns: int) -> tuple[Array, Array | None]:
    """Read weight (out, columns) and bias (out,), if any, of a Dense.

    Raises `InputError` if they are malformed or do not fit.
    """
    try:
        weights = Weights([part.weights])
    except ValueError as error:
        raise InputError(str(error)) from error

    # The weights must fit the vectors before the layer.
    weight = weights.get("linear.weight")
    if weight is None or weight.ndim != 2 or weight.shape[1] != columns:
        shape = None if weight is None else weight.shape
        raise InputError(f"{part.weights}: linear.weight {shape}; expected (any, {columns})")
    bias = weights.get("linear.bias")
    if bias is not None and bias.shape != (len(weight),):
        raise InputError(f"{part.weights}: bias {bias.shape}; expected ({len(weight)},)")
    return weight, bias


def buckets(longest: int, count: int) -> NDArray[np.int64]:
    """Return which of `count` biases applies to each distance from 1 - longest to longest - 1.

    Half of the biases are for tokens before, half for tokens after. Half of each are for single
    distances, the others for ranges that grow exponentially (Raffel et al. 2020, T5).

    >>> buckets(3, 32)
    array([ 2,  1,  0, 17, 18])
    """
    distances = np.arange(1 - longest, longest)
    size = np.abs(distances)
    half = count // 2
    exact = half // 2  # smaller distances have a row each

    # Larger distances get a row by their logarithm; from FARTHEST on, it is the last one.
    growth = np.log(np.maximum(size, 1).astype(np.float32) / np.float32(exact))
    steps = growth / np.float32(math.log(FARTHEST / exact)) * np.float32(half - exact)
    of_range = np.minimum(exact + steps.astype(np.int64), half - 1)
    rows: NDArray[np.int64] = np.where(size < exact, size, of_range) + half * (distances > 0)
    return rows
