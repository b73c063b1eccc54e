"""SBERT-WK pooling: weights words by how their vectors change across layers (Wang & Kuo 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slimdex.indexes.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

WINDOW = 2
"""Neighbouring layers on either side to compare a layer with: m in the paper."""
LEAST_LAYERS = 3
"""Two layers have one difference only, which has no variance."""
TINY = 1e-12


def check_layer_count(count: int) -> None:
    """Raise `InputError` if there are too few layers for SBERT-WK."""
    if count < LEAST_LAYERS:
        raise InputError(f"pooling 'wk' over {count} layers; expected {LEAST_LAYERS} or more")


def weighted_words(hidden_states: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Pool to one vector per text: average words over layers, then texts over words.

    Layers of a word are weighted by alignment, the inverse of how well a layer's vector agrees with
    its neighbours within their span, and by novelty, the share outside that span. Words are
    weighted by the variance of the cosines of adjacent layers. As in the authors' code, the last
    token, a separator, is excluded. As in the paper but unlike that code, the window of the second
    layer includes the first.

    Parameters
    ----------
    hidden_states : at least three tensors of *Shape:* (batch, seq, width).
    mask : *Shape:* (batch, seq), 1 for tokens.

    Returns
    -------
    *Shape:* (batch, width).
    """
    import torch

    layers = torch.stack([state.float() for state in hidden_states], dim=2)
    units = layers / layers.norm(dim=-1, keepdim=True).clamp(min=TINY)
    changes = (units[:, :, 1:] * units[:, :, :-1]).sum(dim=-1)
    spread = (changes - changes.mean(dim=-1, keepdim=True)).square().sum(dim=-1)
    spread = spread / (changes.shape[-1] - 1)
    weights = (spread + TINY) * _without_last(mask)
    weights = weights / weights.sum(dim=1, keepdim=True)
    words = (layers * _layer_weights(layers, units)[..., None]).sum(dim=2)
    vectors: Tensor = (words * weights[..., None]).sum(dim=1)
    return vectors


def _layer_weights(layers: Tensor, units: Tensor) -> Tensor:
    """Weights of each word's layers (batch, seq, layers), which sum to one."""
    import torch

    count = layers.shape[2]
    alignment, novelty = [], []
    for i in range(count):
        around = [j for j in range(max(0, i - WINDOW), min(count, i + WINDOW + 1)) if j != i]
        own = layers[:, :, i]
        rest, inside = own, torch.zeros_like(own[..., 0])
        basis: list[Tensor] = []
        for j in around:  # Gram-Schmidt, since converted networks have no QR
            axis = units[:, :, j]
            for known in basis:
                axis = axis - (axis * known).sum(dim=-1, keepdim=True) * known
            axis = axis / axis.norm(dim=-1, keepdim=True).clamp(min=1e-6)
            basis.append(axis)
            part = (rest * axis).sum(dim=-1)
            rest, inside = rest - part[..., None] * axis, inside + part.square()
        mean = torch.stack([units[:, :, j] for j in around]).mean(dim=0)
        agreement = (mean * own).sum(dim=-1) / inside.clamp(min=TINY).sqrt()
        alignment.append(1 / (agreement.clamp(min=1e-6) * (len(around) + 1) * 2))
        novelty.append(rest.norm(dim=-1) / own.norm(dim=-1).clamp(min=TINY))
    found = [torch.stack(values, dim=-1) for values in (alignment, novelty)]
    shares = [values / values.sum(dim=-1, keepdim=True).clamp(min=TINY) for values in found]
    both = shares[0] + shares[1]
    total: Tensor = both / both.sum(dim=-1, keepdim=True)
    return total


def _without_last(mask: Tensor) -> Tensor:
    """Mask without each text's last token, with padding on either side; a single token stays."""
    counted = mask.float().cumsum(dim=1) * mask
    total = mask.float().sum(dim=1, keepdim=True)
    return ((counted > 0) & ((counted < total) | (total <= 1))).float()
