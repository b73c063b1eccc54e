"""Networks of the BERT family, with pooling and head, written once for numpy and OpenVINO.

The operations are as large as one library can run best: OpenVINO recognises and fuses attention,
normalisation and activations in the form in which `openvino_operations` builds them, and numpy
runs attention text by text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slimdex.errors import InputError

from ..model_folder import Dense, HeadPart, SentenceFolder, Truncate
from ..pooling import POOLER, WK, Pooling, Tensor, Texts, pool
from .bert_folder import (
    POSITIONS,
    TYPES,
    WORDS,
    Array,
    Family,
    buckets,
    dense,
    folder_tokenizer,
    head_width,
    read_family,
)
from .openvino_runtime import Facts


class Operations(Texts, Protocol):
    """A batch of texts, and the operations that networks are made of.

    Weights are arrays. Vectors are of tokens or, after pooling, of texts.
    """

    @property
    def ids(self) -> Tensor:
        """Ids of the tokens."""

    def differing(self, id: int) -> Tensor:
        """1 for each token with another id, else 0."""

    def rows(self, table: Array, numbers: Tensor) -> Tensor:
        """Row of a table for each token, by the token's number."""

    def rows_by_place(self, table: Array) -> Tensor:
        """Rows of a table by the tokens' places in their texts, to add to other vectors."""

    def linear(self, vectors: Tensor, weight: Array, bias: Array | None) -> Tensor:
        """Product with a matrix (out, in), plus a bias (out,)."""

    def layer_norm(self, vectors: Tensor, weight: Array, bias: Array, epsilon: float) -> Tensor:
        """Layer norm; epsilon is added to variances."""

    def activate(self, vectors: Tensor, name: str) -> Tensor:
        """Apply an activation: gelu_tanh, or a class of torch.nn in lower case.

        The vectors may be overwritten.
        """

    def biases(self, by_distance: Array | None) -> Any:
        """Biases to add to the scores of attention, the same for all layers.

        `by_distance` (2 n - 1, heads) has a row for each distance of two tokens, from 1 - n to
        n - 1; if it is None, the biases are zero.
        """

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, biases: Any, heads: int
    ) -> Tensor:
        """Attention of heads to the tokens of the same text."""

    def first_dimensions(self, vectors: Tensor, count: int) -> Tensor:
        """The first dimensions of texts' vectors."""

    def unit(self, vectors: Tensor) -> Tensor:
        """Texts' vectors at unit length; zero stays zero."""


@dataclass(frozen=True)
class Network:
    """Network of a family, with pooling and head."""

    family: Family
    pooling: Pooling
    head: Sequence[HeadPart]

    def vectors(self, texts: Operations) -> Tensor:
        """Vectors (texts, dim) of texts.

        Raises `ValueError` if weights are missing, `InputError` if those of the head do not fit.
        """
        states = self._states(texts)
        if self.pooling.mode == POOLER:
            firsts = texts.first(states[-1])
            layer = f"{self.family.architecture.pooler}"
            pooled = texts.activate(self._linear(texts, firsts, layer), "tanh")
        else:
            pooled = pool(texts, states, self.pooling)
        return self._with_head(texts, pooled)

    def _states(self, texts: Operations) -> list[Tensor]:
        """Hidden states of the embeddings and of each layer."""
        architecture = self.family.architecture
        state = self._embed(texts)
        biases = texts.biases(self._by_distance())
        states = [state]
        for i in range(self.family.shape.layers):
            state = self._layer(texts, state, biases, architecture.layer.format(i))
            states.append(state)
        return states

    def _embed(self, texts: Operations) -> Tensor:
        """Compute the tokens' vectors before the first layer, in the layers' width."""
        weights = self.family.weights
        words = texts.rows(weights[WORDS], texts.ids)
        state = self._normalize(texts, words + self._positions(texts), "embeddings.LayerNorm")
        projection = self.family.architecture.projection
        if projection and f"{projection}.weight" in weights:
            return self._linear(texts, state, projection)
        return state

    def _positions(self, texts: Operations) -> Tensor:
        """Vectors of positions, with that of the first token type, which all tokens have."""
        architecture = self.family.architecture
        table = self.family.weights[POSITIONS]
        if architecture.token_types:
            table = table + self.family.weights[TYPES][0]
        if not architecture.counts_padding:
            return texts.rows_by_place(table)

        # Positions start after the padding token's id, which is the position of padding itself.
        padding = self.family.shape.padding
        is_token = texts.differing(padding)
        return texts.rows(table[padding:], texts.cumsum(is_token) * is_token)

    def _by_distance(self) -> Array | None:
        """Biases (2 n - 1, heads) by distance, see `Operations.biases`; None if there are none."""
        relative = self.family.architecture.relative
        if relative is None:
            return None
        table = self.family.weights[relative]
        longest = len(self.family.weights[POSITIONS])
        biases: Array = table[buckets(longest, len(table))]
        return biases

    def _layer(self, texts: Operations, state: Tensor, biases: Any, layer: str) -> Tensor:
        """Apply a layer to the tokens' vectors; `layer` is the prefix of its weights' names."""
        names = self.family.architecture
        shape = self.family.shape

        # Attention.
        query = self._linear(texts, state, layer + names.query)
        key = self._linear(texts, state, layer + names.key)
        value = self._linear(texts, state, layer + names.value)
        attended = texts.attention(query, key, value, biases, shape.heads)
        attended = self._linear(texts, attended, layer + names.attended) + state
        state = self._normalize(texts, attended, layer + names.attended_norm)

        # Feed-forward.
        inner = self._linear(texts, state, layer + names.inner)
        inner = texts.activate(inner, shape.activation)
        outer = self._linear(texts, inner, layer + names.outer) + state
        return self._normalize(texts, outer, layer + names.outer_norm)

    def _linear(self, texts: Operations, vectors: Tensor, name: str) -> Tensor:
        weights = self.family.weights
        return texts.linear(vectors, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def _normalize(self, texts: Operations, vectors: Tensor, name: str) -> Tensor:
        """Apply the layer norm whose weights have this name."""
        weights = self.family.weights
        return texts.layer_norm(
            vectors,
            weights[f"{name}.weight"],
            weights[f"{name}.bias"],
            self.family.shape.epsilon,
        )

    def _with_head(self, texts: Operations, vectors: Tensor) -> Tensor:
        """Apply the modules after the pooling to vectors (texts, width)."""
        width = self.family.width * len(self.pooling.modes)
        for part in self.head:
            if isinstance(part, Dense):
                weight, bias = dense(part, width)
                width = len(weight)
                vectors = texts.linear(vectors, weight, bias)
                vectors = texts.activate(vectors, part.activation.lower())
            elif isinstance(part, Truncate):
                width = min(part.dim, width)
                vectors = texts.first_dimensions(vectors, width)
            else:
                vectors = texts.unit(vectors)
        return vectors


def read_network(folder: SentenceFolder, pooling: Pooling) -> tuple[Network, Facts, Any] | None:
    """Read a network, with its facts and tokenizer; None if it or its pooling needs torch.

    Torch is needed for other families, for tokenizers without a `tokenizer.json`, for SBERT-WK, and
    for prompts that are not pooled.

    Raises `InputError` if weights are missing, or the pooling or the head does not fit.
    """
    family = read_family(folder)
    tokenizer_and_limit = folder_tokenizer(folder.transformer)
    if family is None or tokenizer_and_limit is None:
        return None
    if pooling.mode == WK or not pooling.with_prompt:
        return None

    # The pooling must fit the network.
    pooling.check_layers(family.shape.layers)
    if pooling.mode == POOLER and f"{family.architecture.pooler}.weight" not in family.weights:
        raise InputError(
            "pooling 'pooler': the model has no pooler; expected cls, mean, max or last"
        )
    tokenizer, longest = tokenizer_and_limit
    facts = Facts(
        dim=head_width(family.width * len(pooling.modes), folder.head),
        width=family.width,
        layers=family.shape.layers,
        longest=int(min(longest, family.longest)),
        pad_id=family.shape.padding,
    )
    return Network(family, pooling, folder.head), facts, tokenizer
