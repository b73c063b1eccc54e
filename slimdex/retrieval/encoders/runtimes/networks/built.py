"""Networks of the BERT family, built from configuration and weights in a fraction of a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from slimdex.indexes.errors import InputError

from ...folder_checks import read_json
from ...pooling import POOLER, Pooling
from ...sentence_folder import SentenceFolder
from ..cache import Conversion, Facts
from ..openvino_library import openvino_library
from .architectures import Shape, architecture_of
from .first_texts import FirstTexts
from .folder_tokenizer import folder_tokenizer
from .hidden_states import Family
from .operations import Node, ops, scalar
from .sentence_vectors import POOLERS, first, head_width, pool, with_head
from .weights import Weights, weight_files


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
