"""Networks of the BERT family in numpy, which encode the first texts before OpenVINO could start.

A command that encodes one query would wait a third of a second for OpenVINO, and needs it for a
hundredth. The vectors are those of OpenVINO in float32, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.system.threads import threads_for

from ..model_folder import Dense, HeadPart, SentenceFolder, Truncate
from ..pooling import POOLER, Pooling
from .bert_folder import POSITIONS, TINY, TYPES, WORDS, Array, Family, buckets, dense, read_bert
from .openvino_runtime import CPU_TOKENS, Batch, Facts, OpenVinoRuntime

ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Coefficients of the error function, to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26)."""
ERF_SCALE = 0.3275911
POOLERS: dict[str, Callable[[Array], Array]] = {
    "cls": lambda state: state[0],
    "mean": lambda state: state.mean(axis=0),
    "max": lambda state: state.max(axis=0),
    "last": lambda state: state[-1],
    "sqrtmean": lambda state: state.sum(axis=0) / np.float32(np.sqrt(len(state))),
    "weightedmean": lambda state: np.average(state, axis=0, weights=np.arange(1, len(state) + 1)),
}
"""Mode -> function from a hidden state (n, width) to a vector (width,)."""
FIRST_TOKENS = 1024
"""Tokens that numpy encodes in the time in which OpenVINO starts."""
CACHED_ROWS = 16
"""Rows to activate at a time: the arrays between its steps stay in a core's cache."""
_QUICK: ContextVar[bool] = ContextVar("quick", default=False)


@dataclass(frozen=True)
class FirstTexts:
    """Network with pooling and head.

    All texts share the products with weights: for a few rows, most of the time goes into reading
    the weights once.
    """

    family: Family
    pooling: Pooling
    head: Sequence[HeadPart]

    def encode(self, texts: Sequence[NDArray[np.int64]]) -> Matrix:
        """Encode the token ids (n,) of texts, without padding, to vectors (texts, dim)."""
        with threads_for(0):  # numpy's own part of the work has one thread anyway
            starts = np.cumsum([len(ids) for ids in texts])[:-1]
            states = self._states(texts, starts)
            if self.pooling.mode == POOLER:
                firsts = states[-1][[0, *starts]]
                pooled = np.tanh(self._linear(firsts, f"{self.family.architecture.pooler}"))
            else:
                layers = [np.split(states[layer], starts) for layer in self.pooling.layers]
                poolers = [POOLERS[mode] for mode in self.pooling.modes]
                pooled = np.hstack(
                    [
                        np.mean([[*map(pooler, layer)] for layer in layers], axis=0)
                        for pooler in poolers
                    ]
                )
            return with_head(pooled, self.head)

    def _states(self, texts: Sequence[NDArray[np.int64]], starts: Rows) -> list[Array]:
        """Hidden states (n, width) of the embeddings and of each layer, for all tokens of texts.

        `starts` are the first tokens of all texts but the first.
        """
        family = self.family
        state = np.concatenate([self._embedded(ids) for ids in texts])
        states = [state]
        biases = [self._bias(len(ids)) for ids in texts]
        for i in range(family.shape.layers):
            state = self._layer(state, starts, biases, family.architecture.layer.format(i))
            states.append(state)
        return states

    def _layer(
        self, state: Array, starts: Rows, biases: Sequence[Array | float], layer: str
    ) -> Array:
        names = self.family.architecture
        queries, keys, values = (
            np.split(self._linear(state, layer + name), starts)
            for name in (names.query, names.key, names.value)
        )
        each = zip(queries, keys, values, biases, strict=True)
        heads = self.family.shape.heads
        attended = np.concatenate([attention(*of_text, heads) for of_text in each])
        attended = self._linear(attended, layer + names.attended) + state
        state = self._normalized(attended, layer + names.attended_norm)
        inner = self._linear(state, layer + names.inner)
        for rows in batches(len(inner), CACHED_ROWS):
            inner[rows] = ACTIVATIONS[self.family.shape.activation](inner[rows])
        return self._normalized(
            self._linear(inner, layer + names.outer) + state, layer + names.outer_norm
        )

    def _linear(self, x: Array, name: str) -> Array:
        weights = self.family.weights
        product: Array = x @ weights[f"{name}.weight"].T
        product += weights[f"{name}.bias"]
        return product

    def _normalized(self, x: Array, name: str) -> Array:
        weights = self.family.weights
        unit = x - x.mean(axis=1, keepdims=True)
        unit /= np.sqrt(np.square(unit).mean(axis=1, keepdims=True) + self.family.shape.epsilon)
        scaled: Array = unit * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return scaled

    def _embedded(self, ids: NDArray[np.int64]) -> Array:
        family = self.family
        weights = self.family.weights
        places = np.arange(len(ids))
        if family.architecture.counts_padding:
            counted = ids != family.shape.padding
            places = counted.cumsum() * counted + family.shape.padding
        found = weights[WORDS][ids] + weights[POSITIONS][places]
        if family.architecture.token_types:
            found = found + weights[TYPES][0]
        found = self._normalized(found, "embeddings.LayerNorm")
        projection = family.architecture.projection
        has_projection = projection is not None and f"{projection}.weight" in weights
        return self._linear(found, f"{projection}") if has_projection else found

    def _bias(self, count: int) -> Array | float:
        """Biases of attention by distance, (heads, count, count), of models that have them."""
        relative = self.family.architecture.relative
        if relative is None:
            return 0.0
        table = self.family.weights[relative]
        places = np.arange(count)
        by_distance = table[buckets(count, len(table))]
        bias: Array = by_distance[places[None] - places[:, None] + count - 1]
        return bias.transpose(2, 0, 1)


def attention(query: Array, key: Array, value: Array, bias: Array | float, heads: int) -> Array:
    """Attention of heads to (n, width), from vectors (n, width) of one text."""
    parts = (x.reshape(len(x), heads, -1).transpose(1, 0, 2) for x in (query, key, value))
    query, key, value = parts
    scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2])) + bias
    scores = np.exp(scores - scores.max(axis=2, keepdims=True))
    found: Array = scores / scores.sum(axis=2, keepdims=True) @ value
    return found.transpose(1, 0, 2).reshape(found.shape[1], -1)


def with_head(vectors: Array, head: Sequence[HeadPart]) -> Matrix:
    """Apply the modules after the pooling to vectors (n, width)."""
    for part in head:
        if isinstance(part, Dense):
            weight, bias = dense(part, vectors.shape[1])
            vectors = vectors @ weight.T + (0 if bias is None else bias)
            vectors = ACTIVATIONS[part.activation.lower()](vectors)
        elif isinstance(part, Truncate):
            vectors = vectors[:, : part.dim]
        else:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(lengths, TINY)
    return vectors.astype(np.float32, copy=False)


def _gelu(x: Array) -> Array:
    size = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(ERF_SCALE) * size)
    total = np.zeros_like(t)
    for factor in ERF:
        total = (total + np.float32(factor)) * t
    erf: Array = np.copysign(1 - total * np.exp(-size * size), x)
    return x * (1 + erf) / np.float32(2)


def _gelu_tanh(x: Array) -> Array:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    result: Array = x * (1 + np.tanh(inner)) / np.float32(2)
    return result


def _sigmoid(x: Array) -> Array:
    result: Array = np.reciprocal(1 + np.exp(-x))
    return result


def _elu(x: Array) -> Array:
    result: Array = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return result


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "elu": _elu,
    "leakyrelu": lambda x: np.where(x > 0, x, np.float32(0.01) * x),
    "selu": lambda x: (
        np.float32(1.0507009873554805)
        * np.where(x > 0, x, np.float32(1.6732632423543772) * np.expm1(np.minimum(x, 0)))
    ),
}


@contextmanager
def quick_start() -> Iterator[None]:
    """Let encoders that are loaded within start quickly, for a command that ends soon."""
    before = _QUICK.set(True)
    try:
        yield
    finally:
        _QUICK.reset(before)


def starts_quickly() -> bool:
    """Return whether this is within `quick_start`."""
    return _QUICK.get()


class QuickRuntime:
    """Runtime that encodes the first `FIRST_TOKENS` tokens by numpy in float32.

    `start` compiles the network for OpenVINO, which encodes all later texts.
    """

    name = "OpenVINO on cpu"
    batch_tokens = CPU_TOKENS
    streams = 1

    def __init__(
        self, network: FirstTexts, precision: str, start: Callable[[], OpenVinoRuntime]
    ) -> None:
        self.precision = precision
        self._network = network
        self._start = start
        self._tokens = 0
        self._compiled: OpenVinoRuntime | None = None

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Yield the network's output for each batch of ids and mask (n, seq), in order."""
        batches = iter(batches)
        for ids, mask in batches:
            self._tokens += int(mask.sum())
            if self._tokens > FIRST_TOKENS:
                self._compiled = self._compiled or self._start()
                yield from self._compiled.run(chain([(ids, mask)], batches))
                return
            lengths = mask.sum(axis=1)
            yield self._network.encode([row[:n] for row, n in zip(ids, lengths, strict=True)])


def first_texts(folder: SentenceFolder, pooling: Pooling) -> tuple[FirstTexts, Facts, Any] | None:
    """Read the same network for numpy, with its facts and tokenizer; no library has to start.

    None if torch is needed. Raises `InputError` if weights are missing, or the pooling or the head
    does not fit.
    """
    found = read_bert(folder, pooling)
    if found is None:
        return None
    family, facts, tokenizer = found
    return FirstTexts(family, pooling, folder.head), facts, tokenizer
