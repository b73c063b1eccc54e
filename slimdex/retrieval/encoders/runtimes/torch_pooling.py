"""Pooling in torch: operations of the plain modes, and SBERT-WK."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import pooling as plain
from ..pooling import TEXT, WK, Pooling

NEIGHBOURS = 2
"""Neighbouring layers on either side to compare a layer with: m in the paper."""
TINY = 1e-12


def pool(states: Sequence[Tensor], mask: Tensor, pooling: Pooling) -> Tensor:
    """Pool the layers' hidden states (batch, seq, width) to a vector per text, (batch, width).

    The mask (batch, seq) is `TEXT` or `PROMPT` for tokens, with padding on either side. The mode is
    not pooler.
    """
    if pooling.mode == WK:
        chosen = [states[layer] for layer in pooling.layers] or states  # all by default
        return _pool_sbert_wk(chosen, mask)
    texts = TorchTexts(mask, with_prompt=pooling.with_prompt)
    vectors: Tensor = plain.pool(texts, states, pooling)
    return vectors


class TorchTexts:
    """`Texts` of a mask (batch, seq) of `TEXT` and `PROMPT`; padding is on either side."""

    def __init__(self, mask: Tensor, *, with_prompt: bool = True) -> None:
        self.tokens = mask.clamp(max=1)
        self.pooled = mask if with_prompt else (mask == TEXT).int()

    def first(self, states: Tensor) -> Tensor:
        # With left padding the first token is not in column 0: find the first 1.
        return _gather(states, self.pooled.int().argmax(dim=1))

    def last(self, states: Tensor) -> Tensor:
        from_end = self.pooled.int().flip(1).argmax(dim=1)
        return _gather(states, self.pooled.shape[1] - 1 - from_end)

    def max(self, states: Tensor) -> Tensor:
        return states.masked_fill(self.pooled[:, :, None] == 0, float("-inf")).amax(dim=1)

    def mean(self, states: Tensor, weights: Tensor) -> Tensor:
        weights = weights[:, :, None].float()  # sum in full precision
        return (states.float() * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)

    def cumsum(self, numbers: Tensor) -> Tensor:
        return numbers.cumsum(dim=1)

    def root_count(self) -> Tensor:
        return self.pooled.sum(dim=1, keepdim=True).float().clamp(min=1.0).sqrt()

    def average(self, vectors: Sequence[Tensor]) -> Tensor:
        total = vectors[0]
        for other in vectors[1:]:
            total = total + other
        return total / len(vectors)

    def concatenate(self, vectors: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(vectors), dim=-1)


def _gather(states: Tensor, columns: Tensor) -> Tensor:
    """Take the vector in one column of each text: (batch, width) from (batch, seq, width)."""
    index = columns[:, None, None].expand(-1, 1, states.shape[2])
    return states.gather(1, index)[:, 0]


def _pool_sbert_wk(hidden_states: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Pool by SBERT-WK: average each word over its layers, then the words (Wang & Kuo 2020).

    Layers of a word are weighted by alignment, the inverse of how well a layer's vector agrees with
    its neighbours within their span, and by novelty, the share outside that span. Words are
    weighted by the variance of the cosines of adjacent layers. As in the authors' code, the last
    token, a separator, is excluded. As in the paper but unlike that code, the window of the second
    layer includes the first.
    """
    layers = torch.stack([state.float() for state in hidden_states], dim=2)  # layers on axis 2
    units = layers / layers.norm(dim=-1, keepdim=True).clamp(min=TINY)

    # Weights of words: the variance of the cosines of adjacent layers.
    cosines = (units[:, :, 1:] * units[:, :, :-1]).sum(dim=-1)
    variance = (cosines - cosines.mean(dim=-1, keepdim=True)).square().sum(dim=-1)
    variance = variance / (cosines.shape[-1] - 1)
    weights = (variance + TINY) * _without_last(mask)
    weights = weights / weights.sum(dim=1, keepdim=True)

    # Average the layers of each word, then the words.
    words = (layers * _layer_weights(layers, units)[..., None]).sum(dim=2)
    vectors: Tensor = (words * weights[..., None]).sum(dim=1)
    return vectors


def _layer_weights(layers: Tensor, units: Tensor) -> Tensor:
    """Weights of each word's layers (batch, seq, layers), which sum to one."""
    count = layers.shape[2]
    alignment = []
    novelty = []
    for i in range(count):
        before = range(max(0, i - NEIGHBOURS), i)
        after = range(i + 1, min(count, i + NEIGHBOURS + 1))
        around = [*before, *after]

        # Split the layer into its part in the span of its neighbours, and the rest.
        layer = layers[:, :, i]
        rest = layer
        inside = torch.zeros_like(layer[..., 0])
        basis: list[Tensor] = []
        for j in around:  # Gram-Schmidt, since converted networks have no QR
            axis = units[:, :, j]
            for known in basis:
                axis = axis - (axis * known).sum(dim=-1, keepdim=True) * known
            axis = axis / axis.norm(dim=-1, keepdim=True).clamp(min=1e-6)
            basis.append(axis)
            part = (rest * axis).sum(dim=-1)
            rest = rest - part[..., None] * axis
            inside = inside + part.square()

        # Alignment by the part in the span, novelty by the rest.
        mean = torch.stack([units[:, :, j] for j in around]).mean(dim=0)
        agreement = (mean * layer).sum(dim=-1) / inside.clamp(min=TINY).sqrt()
        alignment.append(1 / (agreement.clamp(min=1e-6) * (len(around) + 1) * 2))
        novelty.append(rest.norm(dim=-1) / layer.norm(dim=-1).clamp(min=TINY))

    # Both measures have equal weight.
    both = _shares(alignment) + _shares(novelty)
    total: Tensor = both / both.sum(dim=-1, keepdim=True)
    return total


def _shares(values: Sequence[Tensor]) -> Tensor:
    """Stack the values of layers, and scale those of each word to a sum of one."""
    joined = torch.stack([*values], dim=-1)
    shares: Tensor = joined / joined.sum(dim=-1, keepdim=True).clamp(min=TINY)
    return shares


def _without_last(mask: Tensor) -> Tensor:
    """Mask without each text's last token, with padding on either side; a single token stays."""
    number = mask.float().cumsum(dim=1) * mask  # a token's place in its text, from 1; 0 for padding
    count = mask.float().sum(dim=1, keepdim=True)
    return ((number > 0) & ((number < count) | (count <= 1))).float()
