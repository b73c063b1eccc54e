"""Pooling of token vectors to one vector per text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slimdex.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

POOLER = "pooler"
"""Mode that uses the model's own layer over the first token."""
WK = "wk"
"""Mode that weights words by how their vectors change across layers: SBERT-WK."""
NEIGHBOURS = 2
"""Neighbouring layers on either side to compare a layer with: m in the paper."""
LEAST_LAYERS = 3
"""Two layers have one difference only, which has no variance."""
TINY = 1e-12
WEIGHTED_MEAN = "weightedmean"
PLAIN_MODES = ("cls", "mean", "max", "last", "sqrtmean", WEIGHTED_MEAN)
"""Modes that can be joined, and pool any layer."""
WITHOUT_PROMPT = "without prompt"
TEXT, PROMPT = 1, 2
"""Mask values of tokens to pool, and of a prompt that is not pooled; 0 is padding."""
MODES = (*PLAIN_MODES, POOLER, WK)


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
        """Raise `InputError` unless every layer exists in a model of `count` layers."""
        for layer in self.layers:
            if not -count - 1 <= layer <= count:
                raise InputError(
                    f"pooling {str(self)!r}: layer {layer}; the model has layers 0 to {count}"
                )
        if self.mode == WK:
            compared = len(self.layers) or count + 1
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
    kind = text.strip().removesuffix(WITHOUT_PROMPT)
    with_prompt = kind == text.strip()
    found = re.fullmatch(r"([\w+]+)(?:@(-?\d+(?:,-?\d+)*))?", kind.strip())
    if found is None or not (found[1] in MODES or set(found[1].split("+")) <= set(PLAIN_MODES)):
        modes = f"{', '.join(MODES[:-1])} or {MODES[-1]}"
        raise InputError(f"pooling {text!r}; expected {modes}, with layers as in 'mean@1,-1'")
    named = found[2] or ("" if found[1] == WK else "-1")
    layers = tuple(int(layer) for layer in named.split(",") if layer)
    pooling = Pooling(found[1], layers, with_prompt)
    if pooling.mode == POOLER and pooling.needs_all_layers:
        raise InputError(f"pooling {text!r}; expected 'pooler' without layers")
    if pooling.mode in (POOLER, WK) and not with_prompt:
        raise InputError(f"pooling {text!r}; expected {', '.join(PLAIN_MODES)} without prompt")
    return pooling


def pool(hidden_states: Sequence[Tensor], mask: Tensor, pooling: Pooling) -> Tensor:
    """Pool the layers' hidden states (batch, seq, width) to a vector per text, (batch, width).

    The mask (batch, seq) is `TEXT` or `PROMPT` for tokens, with padding on either side. The mode is
    not pooler.
    """
    if pooling.mode == WK:
        chosen = [hidden_states[layer] for layer in pooling.layers] or hidden_states
        return _weighted_words(chosen, mask)
    import torch

    text = mask if pooling.with_prompt else (mask == TEXT).int()
    joined = []
    for mode in pooling.modes:
        tokens = mask if mode == WEIGHTED_MEAN else text  # positions count the prompt
        pooled = [POOLERS[mode](hidden_states[layer], tokens) for layer in pooling.layers]
        total = pooled[0]
        for other in pooled[1:]:
            total = total + other
        joined.append(total / len(pooled))
    return torch.cat(joined, dim=-1)


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


def _weighted_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    return _mean(hidden, mask.clamp(max=1).cumsum(dim=1) * (mask == TEXT))


def _sqrt_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    count = mask.sum(dim=1, keepdim=True).float().clamp(min=1.0)
    return _mean(hidden, mask) * count.sqrt()


def _max(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden.masked_fill(mask[:, :, None] == 0, float("-inf")).amax(dim=1)


POOLERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _cls,
    "mean": _mean,
    "max": _max,
    "last": _last,
    "sqrtmean": _sqrt_mean,
    WEIGHTED_MEAN: _weighted_mean,
}
"""Mode -> (hidden state, mask) -> vectors."""


def _weighted_words(hidden_states: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Pool by SBERT-WK: average words over layers, then texts over words (Wang & Kuo 2020).

    Layers of a word are weighted by alignment, the inverse of how well a layer's vector agrees with
    its neighbours within their span, and by novelty, the share outside that span. Words are
    weighted by the variance of the cosines of adjacent layers. As in the authors' code, the last
    token, a separator, is excluded. As in the paper but unlike that code, the window of the second
    layer includes the first.
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
    alignment = []
    novelty = []
    for i in range(count):
        around = [
            j for j in range(max(0, i - NEIGHBOURS), min(count, i + NEIGHBOURS + 1)) if j != i
        ]
        own = layers[:, :, i]
        rest = own
        inside = torch.zeros_like(own[..., 0])
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
