"""Torch networks for ONNX: token ids and mask in, reduced vectors out.

Import this module late: torch takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.reducers.layers import Dense

from ..encoders.runtimes.torch_runtime import Unit, linear
from ..encoders.transformer import TransformerEncoder
from .reduced_model import ReducedModel, rows_of


class StaticNetwork(nn.Module):
    """Mean of token vectors (n, dim) from ids and mask (n, seq); zero for an empty text.

    Parameters
    ----------
    rows : (tokens, dim), weighted.
    dropped : token to ignore.
    """

    def __init__(self, rows: Matrix, dropped: int | None) -> None:
        super().__init__()
        count, dim = rows.shape
        self.embedding = nn.Embedding(count, dim, _weight=torch.from_numpy(rows))
        self.dropped = -1 if dropped is None else dropped

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Compute the means."""
        counted = (attention_mask * (input_ids != self.dropped)).float()[:, :, None]
        total = (self.embedding(input_ids) * counted).sum(dim=1)
        means: Tensor = total / counted.sum(dim=1).clamp(min=1.0)
        return means


class ReducedNetwork(nn.Module):
    """Network of an encoder followed by reducer layers."""

    def __init__(self, network: nn.Module, after: Sequence[nn.Module]) -> None:
        super().__init__()
        self.network, self.after = network, nn.Sequential(*after)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Compute vectors (n, dim) from ids and mask (n, seq)."""
        vectors: Tensor = self.after(self.network(input_ids, attention_mask))
        return vectors


def network_of(model: ReducedModel) -> ReducedNetwork:
    """Build one network of a model, in float32 on the CPU."""
    after = [
        linear(layer.weight, layer.bias, layer.activation) if isinstance(layer, Dense) else Unit()
        for layer in model.layers
    ]
    encoder = model.encoder
    if isinstance(encoder, TransformerEncoder):
        return ReducedNetwork(encoder.network(), after).eval()
    unit = [Unit()] if encoder.vectors.normalize else []
    words = StaticNetwork(rows_of(encoder), encoder.vectors.dropped)
    return ReducedNetwork(words, [*unit, *after]).eval()
