"""Architectures of the BERT family: names of their weights, and default sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


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
        found = dict[str, Any]()
        for name, usual in DEFAULTS.items():
            default = architecture.defaults.get(name, usual)
            key = architecture.keys.get(name, KEYS[name])
            value = config.get(key) if key else default
            value = default if value is None else value
            if type(value) is not type(usual):
                raise ValueError(f"{key}={value!r}; expected {type(usual).__name__}")
            found[name] = value
        if found["heads"] < 1 or found["layers"] < 0:
            raise ValueError(f"{found['layers']} layers, {found['heads']} heads; expected some")
        return cls(**found | {"activation": ACTIVATIONS[found["activation"]]})


def architecture_of(config: Mapping[str, Any]) -> Architecture | None:
    """Architecture of a model with this configuration; None if it is not in the table."""
    architecture = ARCHITECTURES.get(str(config.get("model_type")))
    if architecture is None:
        return None
    key = architecture.keys.get("activation", KEYS["activation"])
    activation = config.get(key, DEFAULTS["activation"])
    known = isinstance(activation, str) and activation in ACTIVATIONS
    plain = all(config.get(name, usual) == usual for name, usual in PLAIN.items())
    return architecture if known and plain else None
