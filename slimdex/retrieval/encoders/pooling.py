"""Pooling of token vectors to one vector per text.

A new mode is a line of `PLAIN_MODES`: all runtimes, the command line and model folders use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slimdex.errors import InputError

Tensor = Any
"""An array of numpy, a tensor of torch, or a node of OpenVINO."""
POOLER = "pooler"
"""Mode that uses the model's own layer over the first token."""
WK = "wk"
"""Mode that weights words by how their vectors change across layers: SBERT-WK."""
LEAST_LAYERS = 3
"""Two layers have one difference only, which has no variance."""
WITHOUT_PROMPT = "without prompt"
TEXT = 1
PROMPT = 2
"""Mask values of tokens to pool, and of a prompt that is not pooled; 0 is padding."""


class Texts(Protocol):
    """A batch of texts in a numerical library: the operations that poolings are made of.

    `tokens` is 1 for each token, `pooled` for each token to pool; both are 0 for padding. Hidden
    states have a vector per token, pooled vectors are (texts, width).
    """

    @property
    def tokens(self) -> Tensor:
        """1 for each token."""

    @property
    def pooled(self) -> Tensor:
        """1 for each token to pool."""

    def first(self, states: Tensor) -> Tensor:
        """Vectors of the first pooled tokens."""

    def last(self, states: Tensor) -> Tensor:
        """Vectors of the last pooled tokens."""

    def max(self, states: Tensor) -> Tensor:
        """Largest value of the pooled tokens in each dimension."""

    def mean(self, states: Tensor, weights: Tensor) -> Tensor:
        """Mean of the tokens' vectors with a weight for each token."""

    def cumsum(self, numbers: Tensor) -> Tensor:
        """Sum of each token's number and those of the tokens before it in its text."""

    def root_count(self) -> Tensor:
        """Square root of the number of pooled tokens, (texts, 1)."""

    def average(self, vectors: Sequence[Tensor]) -> Tensor:
        """Mean of several vectors of each text."""

    def concatenate(self, vectors: Sequence[Tensor]) -> Tensor:
        """Several vectors of each text, one after the other."""


@dataclass(frozen=True)
class PlainMode:
    """A mode that can be joined with others, and pools any layer.

    `library_name` is its name in sentence-transformers.
    """

    library_name: str
    pool: Callable[[Texts, Tensor], Tensor]


PLAIN_MODES = {
    "cls": PlainMode("cls", lambda texts, states: texts.first(states)),
    "mean": PlainMode("mean", lambda texts, states: texts.mean(states, texts.pooled)),
    "max": PlainMode("max", lambda texts, states: texts.max(states)),
    "last": PlainMode("lasttoken", lambda texts, states: texts.last(states)),
    "sqrtmean": PlainMode(
        "mean_sqrt_len_tokens",
        lambda texts, states: texts.mean(states, texts.pooled) * texts.root_count(),
    ),
    "weightedmean": PlainMode(  # positions count the tokens of a prompt
        "weightedmean",
        lambda texts, states: texts.mean(states, texts.cumsum(texts.tokens) * texts.pooled),
    ),
}
MODES = (*PLAIN_MODES, POOLER, WK)
MODE_NAMES = f"{', '.join(MODES[:-1])} or {MODES[-1]}"


@dataclass(frozen=True)
class Pooling:
    """Pooling mode, layers to average (to compare for wk), and whether prompts are pooled.

    Modes joined by + give the vectors of each, one after the other.

    An empty tuple means all layers. Layer 0 is the embedding output, 1 the first transformer
    layer, -1 the last. ``mean@1,-1`` is "first-last-avg" of BERT-whitening (Su et al. 2021) and
    "L1+L12" of WhiteningBERT (Huang et al. 2021), ``mean@1,2,-1`` the latter's best three.
    """

    mode: str
    layers: tuple[int, ...] = (-1,)
    with_prompt: bool = True

    def __str__(self) -> str:
        layers = ",".join(map(str, self.layers))
        text = f"{self.mode}@{layers}" if layers else self.mode
        return text if self.with_prompt else f"{text} {WITHOUT_PROMPT}"

    @property
    def modes(self) -> list[str]:
        """The modes that are joined."""
        return self.mode.split("+")

    @property
    def needs_all_layers(self) -> bool:
        """True if the last hidden state is not enough."""
        return self.layers != (-1,)

    def check_layers(self, count: int) -> None:
        """Raise `InputError` unless every layer exists in a model of `count` layers.

        SBERT-WK also requires at least `LEAST_LAYERS` layers.
        """
        for layer in self.layers:  # 0 is the embeddings, so there are count + 1
            if not -count - 1 <= layer <= count:
                raise InputError(
                    f"pooling {str(self)!r}: layer {layer}; the model has layers 0 to {count}"
                )
        if self.mode == WK:
            compared = len(self.layers) or count + 1  # by default all, with the embeddings
            if compared < LEAST_LAYERS:
                raise InputError(
                    f"pooling 'wk' over {compared} layers; expected {LEAST_LAYERS} or more"
                )


def parse_pooling(text: str) -> Pooling:
    """Parse ``MODE@LAYER,LAYER`` or ``MODE+MODE@LAYER``; the default layer is the last.

    With `` without prompt`` at the end, tokens of prompts are not pooled, as in Instructor.

    MODE is cls (first token), mean, sqrtmean (the sum divided by the root of the number of tokens),
    weightedmean (by the tokens' positions), max, last (last token, for decoders), pooler (the
    model's own layer over the first token, trained on the last layer only) or wk (SBERT-WK, over
    all layers by default). All but the last two can be joined.

    >>> parse_pooling("mean@1,-1")
    Pooling(mode='mean', layers=(1, -1), with_prompt=True)
    >>> str(parse_pooling("cls"))
    'cls@-1'
    """
    modes_and_layers = text.strip().removesuffix(WITHOUT_PROMPT)
    with_prompt = modes_and_layers == text.strip()  # no suffix was removed
    match = re.fullmatch(r"([\w+]+)(?:@(-?\d+(?:,-?\d+)*))?", modes_and_layers.strip())
    if match is None or not (match[1] in MODES or set(match[1].split("+")) <= set(PLAIN_MODES)):
        raise InputError(f"pooling {text!r}; expected {MODE_NAMES}, with layers as in 'mean@1,-1'")

    # Layers; by default the last one, or all for SBERT-WK.
    mode = match[1]
    default_layers = "" if mode == WK else "-1"
    numbers = match[2] or default_layers
    layers = tuple(map(int, numbers.split(","))) if numbers else ()
    pooling = Pooling(mode, layers, with_prompt)

    # Refuse what some modes can't be combined with.
    if pooling.mode == POOLER and pooling.needs_all_layers:
        raise InputError(f"pooling {text!r}; expected 'pooler' without layers")
    if pooling.mode in (POOLER, WK) and not with_prompt:
        raise InputError(f"pooling {text!r}; expected {', '.join(PLAIN_MODES)} without prompt")
    return pooling


def pool(texts: Texts, states: Sequence[Tensor], pooling: Pooling) -> Tensor:
    """Pool the hidden states of all layers to vectors (texts, width), by joined plain modes."""
    vectors = []
    for name in pooling.modes:
        mode = PLAIN_MODES[name]
        of_layers = [mode.pool(texts, states[layer]) for layer in pooling.layers]
        vectors.append(texts.average(of_layers))
    return texts.concatenate(vectors)
