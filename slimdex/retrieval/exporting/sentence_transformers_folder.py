"""Export to sentence-transformers: a model folder, the encoder followed by its reducer's layers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.reducers.layers import Dense, Layer, layers_of
from slimdex.system.progress import progress

from ..encoders import model_folder
from ..encoders.model_folder import MODULES, POOLING_MODES, SETTINGS, Prompts, read_json
from ..encoders.models import HUB_FILES
from ..encoders.runtimes.bert_folder import head_width
from ..encoders.transformer import TransformerEncoder
from ..encoders.word_vectors.folder import CONFIG, SENTENCE_TRANSFORMERS, TOKENIZER, WEIGHTS
from ..encoders.word_vectors.static_encoder import StaticEncoder
from ..index import Index
from .selection import FULL

LIMITS_FILE = "sentence_bert_config.json"
FORMAT_NAME = "sentence-transformers"
PADDING = ("pad_token", "eos_token", "unk_token")
"""Padding tokens, in order of preference; decoders have none of their own."""


class _Folder:
    """Folder under construction; `modules.json` lists the added modules in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules = list[dict[str, Any]]()

    def add(self, kind: str, *, in_place: bool = False) -> Path:
        """Add a module and return its folder, which is the model's folder itself if `in_place`."""
        number = len(self._modules)
        name = "" if in_place else f"{number}_{kind}"
        type_ = f"sentence_transformers.models.{kind}"
        self._modules.append({"idx": number, "name": str(number), "path": name, "type": type_})
        (self._folder / name).mkdir(exist_ok=True)
        return self._folder / name

    def add_layer(self, layer: Layer) -> None:
        """Add a layer of the reducer."""
        if not isinstance(layer, Dense):
            self.add("Normalize")
            return
        layer_folder = self.add("Dense")
        out, width = layer.weight.shape
        bias = {} if layer.bias is None else {"linear.bias": layer.bias}
        _write_tensors(layer_folder / WEIGHTS, {"linear.weight": layer.weight} | bias)
        config = {
            "in_features": width,
            "out_features": out,
            "bias": layer.bias is not None,
            "activation_function": f"torch.nn.{layer.activation}",
        }
        _write_json(layer_folder / CONFIG, config)

    def finish(self, prompts: dict[str, str]) -> None:
        """Write `modules.json` and the prompts."""
        _write_json(self._folder / MODULES, self._modules)
        settings = {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"}
        _write_json(self._folder / SETTINGS, settings)


def model_and_layers(
    index: Index, vectors: str
) -> tuple[TransformerEncoder | StaticEncoder, list[Layer]]:
    """The encoder of an index, and the layers of its reducer; no layers for full vectors.

    Raises `InputError` if the index is empty, its vectors were supplied by the user, its encoder is
    not one of slimdex, or its reducer can't be expressed as layers.
    """
    if vectors != FULL and index.is_empty:
        raise InputError(f"{index.path} holds no documents; expected some to reduce by")
    layers = [] if vectors == FULL else layers_of(index.snapshot.index.reducer)
    encoder: Any = index.encoder
    if not isinstance(encoder, TransformerEncoder | StaticEncoder):
        raise InputError(
            f"{index.path}: encoder {encoder.spec().get('type')!r}; expected a "
            "TransformerEncoder or a StaticEncoder, whose network is known"
        )
    return encoder, layers


def write(
    encoder: TransformerEncoder | StaticEncoder, layers: Sequence[Layer], folder: Path
) -> list[str]:
    """Write a folder that `SentenceTransformer(folder)` loads; return notes for the user.

    Raises `InputError` for an encoder that the library can't represent: pooling over several
    layers, by a pooler or SBERT-WK; custom model code; prompts that it would lower-case; word
    vectors whose unknown words would change the mean.
    """
    new_folder = _Folder(folder)
    if isinstance(encoder, StaticEncoder):
        _add_static(new_folder, encoder, layers)
    else:
        _add_transformer(new_folder, folder, encoder)
    prompts = {} if encoder.prompts == Prompts() else asdict(encoder.prompts)
    for layer in layers:
        new_folder.add_layer(layer)
    new_folder.finish(prompts)
    progress("exporting", 1, 1)
    if prompts:
        return [
            "use `encode_query` and `encode_document`, which add the prompts; `encode` does not"
        ]
    return []


def _add_transformer(made: _Folder, folder: Path, encoder: TransformerEncoder) -> None:
    """Add a transformer, its pooling and head to a folder under construction, at the path `folder`.

    Raises `InputError` if sentence-transformers would compute other vectors.
    """
    names = {ours: name for name, ours in POOLING_MODES.items()}
    modes = encoder.pooling.modes
    if not names.keys() >= set(modes) or encoder.pooling.needs_all_layers:
        raise InputError(
            f"to={FORMAT_NAME!r}, pooling {str(encoder.pooling)!r}; expected "
            f"{', '.join(POOLING_MODES.values())}, of the last layer"
        )
    prompts = encoder.prompts.query + encoder.prompts.document
    if encoder.folder.lower_case and prompts != prompts.lower():
        raise InputError(
            f"to={FORMAT_NAME!r}, prompts {prompts!r} of a lower-casing model; expected lower-case "
            "prompts, as the library lower-cases them too"
        )
    if encoder.spec().get("trust_remote_code"):
        raise InputError(f"to={FORMAT_NAME!r}, a model with custom code; expected one without")

    # The transformer.
    source = encoder.folder
    _copy_transformer(source.transformer, made.add("Transformer", in_place=True))
    _write_json(
        folder / LIMITS_FILE,
        {"max_seq_length": encoder.max_length, "do_lower_case": source.lower_case},
    )

    # The pooling.
    theirs = [names[mode] for mode in modes]
    pooling = {
        "word_embedding_dimension": encoder.width,
        "pooling_mode": theirs[0] if len(theirs) == 1 else theirs,
        "include_prompt": encoder.pooling.with_prompt,
    }
    _write_json(made.add("Pooling") / CONFIG, pooling)

    # The modules after the pooling.
    for part in source.head:
        if isinstance(part, model_folder.Dense):
            place = made.add("Dense")
            shutil.copyfile(part.folder / CONFIG, place / CONFIG)
            shutil.copyfile(part.weights, place / WEIGHTS)
        elif isinstance(part, model_folder.Truncate):
            # A matrix that keeps the first dimensions; the truncation is always the last module.
            input_width = head_width(encoder.width * len(modes), source.head[:-1])
            made.add_layer(Dense(np.eye(encoder.dim, input_width, dtype=np.float32)))
        else:
            made.add("Normalize")


def _copy_transformer(source: Path, folder: Path) -> None:
    """Copy a transformer and its tokenizer, set to float32 and right padding."""
    paths = set[Path]()  # several patterns may match the same file
    for pattern in HUB_FILES:
        paths.update(source.glob(pattern))
    for path in paths:
        # The files of sentence-transformers are not copied: the export writes its own.
        if path.name not in (MODULES, SETTINGS) and not path.match("sentence_*_config.json"):
            shutil.copyfile(path, folder / path.name)

    # The settings of the network, and of the tokenizer.
    config = read_json(folder / CONFIG)
    config.pop("torch_dtype", None)
    _write_json(folder / CONFIG, config | {"dtype": "float32"})
    path = folder / "tokenizer_config.json"
    if path.is_file():
        tokens = read_json(path)
        padding = next((tokens[name] for name in PADDING if tokens.get(name)), None)
        _write_json(path, tokens | {"padding_side": "right", "pad_token": padding})


def _add_static(made: _Folder, encoder: StaticEncoder, layers: Sequence[Layer]) -> None:
    """Add word vectors to a folder under construction; `layers` are those that will follow.

    Raises `InputError` if unknown words, which the library counts in its means, make a difference.
    """
    # Counting unknown words shortens vectors, which is harmless if no bias is added before they
    # are scaled.
    changes_length = encoder.vectors.dropped is not None and not encoder.vectors.normalize
    is_scale_invariant = bool(layers) and getattr(layers[0], "bias", None) is None
    if changes_length and not is_scale_invariant:
        raise InputError(
            f"to={FORMAT_NAME!r}, word vectors: the library counts unknown words in its means, "
            "which changes vectors after the mean is subtracted; expected beta=0, or unit vectors"
        )
    module_folder = made.add("StaticEmbedding")
    _write_tensors(module_folder / WEIGHTS, {SENTENCE_TRANSFORMERS: _token_rows(encoder)})
    definition = json.loads(encoder.vectors.definition)
    # For texts of any length, without special tokens.
    definition |= {"post_processor": None, "truncation": None, "padding": None}
    text = json.dumps(definition, ensure_ascii=False)
    (module_folder / TOKENIZER).write_text(text, encoding="utf-8")
    if encoder.vectors.normalize:
        made.add("Normalize")


def _write_tensors(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays as safetensors, which requires contiguous ones."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    path.write_bytes(save(contiguous, metadata={"format": "pt"}))


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def _token_rows(encoder: StaticEncoder) -> Matrix:
    """Weighted token vectors (tokens, dim); zero for the dropped token."""
    complete = encoder.vectors
    rows = complete.vectors if complete.mapping is None else complete.vectors[complete.mapping]
    weights = encoder.weights
    if weights is not None:
        missing = len(rows) - len(weights)  # tokens whose row of zeros is new
        rows = rows * np.pad(weights, (0, missing))[:, None]
    rows = np.array(rows, dtype=np.float32)
    if complete.dropped is not None:
        rows[complete.dropped] = 0.0
    return rows
