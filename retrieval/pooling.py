"""Pooling: how the hidden states of a text's tokens become one vector."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexes.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

MODES = ("cls", "mean")


@dataclass(frozen=True)
class Pooling:
    """A mode and the layers whose pooled vectors are averaged.

    Layer 0 is the embedding output, 1 the first transformer layer, -1 the last.
    ``mean@1,-1`` is "first-last-avg" of BERT-whitening (Su et al. 2021) and "L1+L12" of
    WhiteningBERT (Huang et al. 2021).
    """

    mode: str
    layers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.mode}@{','.join(map(str, self.layers))}"

    @property
    def needs_all_layers(self) -> bool:
        """Whether the last hidden state alone is not enough."""
        return self.layers != (-1,)

    def check_layers(self, count: int) -> None:
        """Raise `InputError` unless every layer exists in a model of `count` layers."""
        for layer in self.layers:
            if not -count - 1 <= layer <= count:
                raise InputError(
                    f"pooling {str(self)!r}: layer {layer}; the model has layers 0 to {count}"
                )


def parse_pooling(text: str) -> Pooling:
    """Parse ``MODE@LAYER,LAYER``; without layers the last one is meant.

    >>> parse_pooling("mean@1,-1")
    Pooling(mode='mean', layers=(1, -1))
    >>> str(parse_pooling("cls"))
    'cls@-1'
    """
    found = re.fullmatch(r"(\w+)(?:@(-?\d+(?:,-?\d+)*))?", text.strip())
    if found is None or found[1] not in MODES:
        modes = " or ".join(MODES)
        raise InputError(f"pooling {text!r}; expected {modes}, with layers as in 'mean@1,-1'")
    return Pooling(found[1], tuple(int(layer) for layer in (found[2] or "-1").split(",")))


def pool(hidden_states: Sequence[Tensor], mask: Tensor, pooling: Pooling) -> Tensor:
    """One vector a text.

    Parameters
    ----------
    hidden_states : a tensor of *Shape:* (batch, seq, width) for each layer.
    mask : *Shape:* (batch, seq), 1 where there is a token, padding on either side.

    Returns
    -------
    *Shape:* (batch, width).
    """
    pooled = [_POOLERS[pooling.mode](hidden_states[layer], mask) for layer in pooling.layers]
    total = pooled[0]
    for other in pooled[1:]:
        total = total + other
    return total / len(pooled)


def _cls(hidden: Tensor, mask: Tensor) -> Tensor:
    first = mask.argmax(dim=1)  # with padding on the left the first token is not in column 0
    index = first[:, None, None].expand(-1, 1, hidden.shape[2])
    return hidden.gather(1, index)[:, 0]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask[:, :, None].to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


_POOLERS = {"cls": _cls, "mean": _mean}
