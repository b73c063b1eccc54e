"""Pooling of token vectors to one vector per text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slimdex.indexes.errors import InputError

from .sbert_wk import check_layer_count, weighted_words

if TYPE_CHECKING:
    from torch import Tensor

POOLER = "pooler"
"""Mode that uses the model's own layer over the first token."""
WK = "wk"
"""Mode that combines all layers: see `sbert_wk`."""
MODES = ("cls", "mean", "max", POOLER, "last", WK)


@dataclass(frozen=True)
class Pooling:
    """Pooling mode, and the layers to average, or to compare for wk.

    An empty tuple means all layers. Layer 0 is the embedding output, 1 the first transformer
    layer, -1 the last. ``mean@1,-1`` is "first-last-avg" of BERT-whitening (Su et al. 2021) and
    "L1+L12" of WhiteningBERT (Huang et al. 2021), ``mean@1,2,-1`` the latter's best three.
    """

    mode: str
    layers: tuple[int, ...] = (-1,)

    def __str__(self) -> str:
        layers = ",".join(map(str, self.layers))
        return f"{self.mode}@{layers}" if layers else self.mode

    @property
    def needs_all_layers(self) -> bool:
        """True if the last hidden state is not enough."""
        return self.layers != (-1,)

    def check_layers(self, count: int) -> None:
        """Raise `InputError` unless every layer exists in a model of `count` layers."""
        for layer in self.layers:
            if not -count - 1 <= layer <= count:
                raise InputError(
                    f"pooling {str(self)!r}: layer {layer}; the model has layers 0 to {count}"
                )
        if self.mode == WK:
            check_layer_count(len(self.layers) or count + 1)


def parse_pooling(text: str) -> Pooling:
    """Parse ``MODE@LAYER,LAYER``; the default layer is the last.

    MODE is cls (first token), mean, max, last (last token, for decoders), pooler (the model's own
    layer over the first token, trained on the last layer only) or wk (SBERT-WK, over all layers by
    default).

    >>> parse_pooling("mean@1,-1")
    Pooling(mode='mean', layers=(1, -1))
    >>> str(parse_pooling("cls"))
    'cls@-1'
    """
    found = re.fullmatch(r"(\w+)(?:@(-?\d+(?:,-?\d+)*))?", text.strip())
    if found is None or found[1] not in MODES:
        modes = f"{', '.join(MODES[:-1])} or {MODES[-1]}"
        raise InputError(f"pooling {text!r}; expected {modes}, with layers as in 'mean@1,-1'")
    named = found[2] or ("" if found[1] == WK else "-1")
    pooling = Pooling(found[1], tuple(int(layer) for layer in named.split(",") if layer))
    if pooling.mode == POOLER and pooling.needs_all_layers:
        raise InputError(f"pooling {text!r}; expected 'pooler' without layers")
    return pooling


def pool(hidden_states: Sequence[Tensor], mask: Tensor, pooling: Pooling) -> Tensor:
    """Pool to one vector per text.

    Parameters
    ----------
    hidden_states : a tensor of *Shape:* (batch, seq, width) for each layer.
    mask : *Shape:* (batch, seq), 1 for tokens; padding may be on either side.
    pooling : any mode except pooler.

    Returns
    -------
    *Shape:* (batch, width).
    """
    if pooling.mode == WK:
        chosen = [hidden_states[layer] for layer in pooling.layers] or hidden_states
        return weighted_words(chosen, mask)
    pooled = [POOLERS[pooling.mode](hidden_states[layer], mask) for layer in pooling.layers]
    total = pooled[0]
    for other in pooled[1:]:
        total = total + other
    return total / len(pooled)


def _cls(hidden: Tensor, mask: Tensor) -> Tensor:
    # With left padding the first token is not in column 0.
    return _gather(hidden, mask.int().argmax(dim=1))


def _last(hidden: Tensor, mask: Tensor) -> Tensor:
    return _gather(hidden, mask.shape[1] - 1 - mask.int().flip(1).argmax(dim=1))


def _gather(hidden: Tensor, columns: Tensor) -> Tensor:
    index = columns[:, None, None].expand(-1, 1, hidden.shape[2])
    return hidden.gather(1, index)[:, 0]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask[:, :, None].float()  # sum in full precision
    return (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def _max(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden.masked_fill(mask[:, :, None] == 0, float("-inf")).amax(dim=1)


POOLERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _cls,
    "mean": _mean,
    "max": _max,
    "last": _last,
}
"""Mode -> (hidden state, mask) -> vectors."""
