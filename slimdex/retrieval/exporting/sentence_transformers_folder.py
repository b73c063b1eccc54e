"""Export to sentence-transformers: the encoder followed by its reducer's layers, by the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tokenizers import Tokenizer

from slimdex.errors import InputError
from slimdex.indexes.reducers.layers import Dense, Layer, layers_of

from ..encoders import model_folder
from ..encoders.model_folder import Prompts
from ..encoders.pooling import PLAIN_MODES
from ..encoders.transformer import TransformerEncoder
from ..encoders.word_vectors.static_encoder import StaticEncoder
from ..index import Index
from .selection import FULL


def write(index: Index, vectors: str, folder: Path) -> int:
    """Write a folder that `SentenceTransformer(folder)` loads; return its dimensions.

    Raises `InputError` if the index is empty, its encoder is not one of slimdex, or the library has
    no modules for the encoder or the reducer.
    """
    if vectors != FULL and index.state.settings is None:
        raise InputError(f"{index.path} holds no documents; expected some to reduce by")
    layers = [] if vectors == FULL else layers_of(index.snapshot.index.reducer)
    encoder: Any = index.encoder
    if isinstance(encoder, StaticEncoder):
        network = _static_modules(encoder, layers)
    elif isinstance(encoder, TransformerEncoder):
        network = _transformer_modules(encoder)
    else:
        raise InputError(
            f"{index.path}: encoder {encoder.spec().get('type')!r}; expected a "
            "TransformerEncoder or a StaticEncoder"
        )
    prompts = None if encoder.prompts == Prompts() else asdict(encoder.prompts)
    model = SentenceTransformer(
        modules=[*network, *map(_module, layers)],
        device="cpu",
        prompts=prompts,
        similarity_fn_name="cosine",
    )
    model.save(str(folder), create_model_card=False)
    dense = [layer for layer in layers if isinstance(layer, Dense)]
    return len(dense[-1].weight) if dense else encoder.dim


def _module(layer: Layer) -> Any:
    """Return the library's module for a layer of a reducer."""
    if not isinstance(layer, Dense):
        return modules.Normalize()
    out, width = layer.weight.shape
    return modules.Dense(
        width,
        out,
        bias=layer.bias is not None,
        activation_function=getattr(torch.nn, layer.activation)(),
        init_weight=torch.tensor(layer.weight),
        init_bias=None if layer.bias is None else torch.tensor(layer.bias),
    )


def _transformer_modules(encoder: TransformerEncoder) -> list[Any]:
    """Return the transformer, its pooling, and the modules after it."""
    source = encoder.folder
    pooling = encoder.pooling
    is_known = {*pooling.modes} <= PLAIN_MODES.keys() and not pooling.needs_all_layers
    if not is_known or encoder.spec().get("trust_remote_code"):
        raise InputError(
            f"pooling {str(pooling)!r}; expected {', '.join(PLAIN_MODES)}, of the last layer of a "
            "model without custom code"
        )
    transformer = modules.Transformer(
        str(source.transformer),
        max_seq_length=encoder.max_length,
        do_lower_case=source.lower_case,
        model_kwargs={"dtype": torch.float32},
        processor_kwargs={"padding_side": "right"},  # positions count from the left
    )
    tokenizer = transformer.tokenizer
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token  # decoders may have none

    modes = tuple(PLAIN_MODES[mode].library_name for mode in pooling.modes)
    found = [transformer, modules.Pooling(encoder.width, modes, pooling.with_prompt)]
    for part in source.head:
        if isinstance(part, model_folder.Dense):
            found.append(modules.Dense.load(str(part.folder)))
        elif isinstance(part, model_folder.Normalize):
            found.append(modules.Normalize())
        else:
            raise InputError(f"{part}; expected a model that keeps all dimensions")
    return found


def _static_modules(encoder: StaticEncoder, layers: Sequence[Layer]) -> list[Any]:
    """Return word vectors as a module; `layers` are those that will follow."""
    # The library counts unknown words in its means. Shorter vectors are harmless only if they are
    # scaled before a bias is added.
    vectors = encoder.vectors
    is_scaled_first = bool(layers) and getattr(layers[0], "bias", None) is None
    if vectors.dropped is not None and not (vectors.normalize or is_scaled_first):
        raise InputError(
            "word vectors: sentence-transformers counts unknown words in its means, which changes "
            "vectors after the mean is subtracted; expected beta=0, or unit vectors"
        )

    # A row of weighted numbers for each token, with zeros for unknown words.
    rows = vectors.vectors if vectors.mapping is None else vectors.vectors[vectors.mapping]
    if encoder.weights is not None:
        rows = rows * np.pad(encoder.weights, (0, len(rows) - len(encoder.weights)))[:, None]
    rows = np.array(rows, dtype=np.float32)
    if vectors.dropped is not None:
        rows[vectors.dropped] = 0.0
    tokenizer = Tokenizer.from_str(vectors.definition)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    embedding = modules.StaticEmbedding(tokenizer, embedding_weights=rows)
    return [embedding, modules.Normalize()] if vectors.normalize else [embedding]
