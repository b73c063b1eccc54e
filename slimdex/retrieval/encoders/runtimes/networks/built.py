"""Networks of the BERT family, with pooling and head, built from a folder's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.indexes.errors import InputError

from ...folder_checks import read_json
from ...pooling import POOLER, Pooling
from ...sentence_folder import Dense, Normalize, SentenceFolder
from ...tokens import GROUP_CHARACTERS
from ..cache import Conversion, Facts
from ..processor import openvino_library
from .architectures import Shape, architecture_of
from .first_texts import FirstTexts
from .hidden_states import Family, Node, activated, integers, linear, ops, scalar, width
from .weights import TINY, Weights, dense, head_width, weight_files

TOKENIZER = "tokenizer.json"
SETTINGS = ("special_tokens_map.json", "tokenizer_config.json")
"""Files of a tokenizer's settings; the later one counts."""


def built_network(folder: SentenceFolder, pooling: Pooling) -> Conversion | None:
    """Build the network of a model; None if torch is needed for its architecture or pooling.

    Raises `InputError` if weights are missing, or the pooling or the head does not fit.
    """
    found = _parts(folder, pooling)
    if found is None:
        return None
    family, facts, tokenizer = found
    given = _inputs()
    states = family.states(*given)
    if pooling.mode == POOLER:
        pooled = family.pooled(first(states[-1], given[1]))
    else:
        pooled = pool(states, given[1], pooling)
    vectors = with_head(pooled, folder.head)
    return Conversion(facts, tokenizer, _model(vectors, given))


def first_texts(folder: SentenceFolder, pooling: Pooling) -> tuple[FirstTexts, Facts, Any] | None:
    """Read the same network for numpy, with its facts and tokenizer; no library has to start.

    None if torch is needed. Raises `InputError` if weights are missing, or the pooling or the head
    does not fit.
    """
    found = _parts(folder, pooling)
    if found is None:
        return None
    family, facts, tokenizer = found
    return FirstTexts(family, pooling, folder.head), facts, tokenizer


def _parts(folder: SentenceFolder, pooling: Pooling) -> tuple[Family, Facts, Any] | None:
    family = _family(folder)
    read = folder_tokenizer(folder.transformer)
    if family is None or read is None or pooling.mode not in (*POOLERS, POOLER):
        return None
    pooling.check_layers(family.shape.layers)
    if pooling.mode == POOLER and f"{family.architecture.pooler}.weight" not in family.weights:
        raise InputError(
            "pooling 'pooler': the model has no pooler; expected cls, mean, max or last"
        )
    tokenizer, longest = read
    facts = Facts(
        dim=head_width(family.width, folder.head),
        width=family.width,
        layers=family.shape.layers,
        longest=int(min(longest, family.longest)),
        pad_id=family.shape.padding,
        flops_per_token=2 * family.multiplied_weights,
    )
    return family, facts, tokenizer


def built_layers(folder: SentenceFolder, mode: str) -> Any | None:
    """Build the network that pools every layer, with outputs (batch, layers + 1, width).

    None if torch is needed.
    """
    family = _family(folder)
    if family is None:
        return None
    given = _inputs()
    pooled = [
        ops().unsqueeze(POOLERS[mode](state, given[1]), scalar(1))
        for state in family.states(*given)
    ]
    return _model(ops().concat(pooled, 1), given)


def _family(folder: SentenceFolder) -> Family | None:
    path = folder.transformer / "config.json"
    config = read_json(path) if path.is_file() else {}
    architecture = architecture_of(config)
    if architecture is None:
        return None
    weights = Weights(weight_files(folder.transformer), architecture.prefix)
    return Family(architecture, Shape.read(architecture, config), weights)


def _inputs() -> list[Node]:
    """Token ids and mask, (batch, seq)."""
    names = ("input_ids", "attention_mask")
    return [ops().parameter([-1, -1], np.int64, name=name) for name in names]


def _model(output: Node, given: list[Node]) -> Any:
    return openvino_library().Model([output], given)


def folder_tokenizer(folder: Path) -> tuple[Any, float] | None:
    """Tokenizer and its maximum length in tokens; None if only transformers can read it.

    Raises `InputError` if a file is malformed.
    """
    from tokenizers import Tokenizer

    path = folder / TOKENIZER
    if not path.is_file():
        return None
    settings = dict[str, Any]()
    for file in (folder / name for name in SETTINGS):
        settings |= read_json(file) if file.is_file() else {}
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{path}: {error}; expected a tokenizer of the library") from error
    side = settings.get("truncation_side", "right")
    tokenizer.enable_truncation(GROUP_CHARACTERS, direction=side)
    longest = settings.get("model_max_length")
    return tokenizer, longest if isinstance(longest, int | float) else float("inf")


def pool(states: Sequence[Node], mask: Node, pooling: Pooling) -> Node:
    """Pool hidden states (batch, seq, width) to (batch, width), in the modes of `POOLERS`.

    Parameters
    ----------
    mask : (batch, seq), 1 for tokens, with padding on the right.
    """
    pooled = [POOLERS[pooling.mode](states[layer], mask) for layer in pooling.layers]
    total = pooled[0]
    for other in pooled[1:]:
        total = ops().add(total, other)
    return ops().divide(total, scalar(len(pooled), np.float32)) if len(pooled) > 1 else total


def with_head(vectors: Node, head: Sequence[Dense | Normalize]) -> Node:
    """Apply the modules after the pooling to vectors (batch, width).

    Raises `InputError` if weights are missing or do not fit.
    """
    for part in head:
        if isinstance(part, Dense):
            product = linear(vectors, *dense(part, width(vectors)))
            vectors = activated(product, part.activation.lower())
        else:
            squares = ops().reduce_sum(ops().multiply(vectors, vectors), integers(1), True)
            lengths = ops().maximum(ops().sqrt(squares), scalar(TINY, np.float32))
            vectors = ops().divide(vectors, lengths)
    return vectors


def first(hidden: Node, mask: Node) -> Node:
    """Vectors of the first tokens, (batch, width)."""
    return ops().gather(hidden, scalar(0), scalar(1))


def _last(hidden: Node, mask: Node) -> Node:
    counts = ops().reduce_sum(ops().convert(mask, "i32"), integers(1), True)
    places = ops().subtract(counts, scalar(1))
    found = ops().gather(hidden, places, scalar(1), 1)
    return ops().squeeze(found, integers(1))


def _mean(hidden: Node, mask: Node) -> Node:
    weights = ops().unsqueeze(ops().convert(mask, "f32"), integers(2))
    total = ops().reduce_sum(ops().multiply(hidden, weights), integers(1), False)
    count = ops().reduce_sum(weights, integers(1), False)
    return ops().divide(total, ops().maximum(count, scalar(1.0, np.float32)))


def _max(hidden: Node, mask: Node) -> Node:
    seen = ops().unsqueeze(ops().convert(mask, "boolean"), integers(2))
    lowest = scalar(float(np.finfo(np.float32).min), np.float32)
    return ops().reduce_max(ops().select(seen, hidden, lowest), integers(1), False)


POOLERS = {"cls": first, "mean": _mean, "max": _max, "last": _last}
"""Mode -> function from hidden state and mask to vectors."""
