"""NetworkLoader: a model's network, ready to run, from the cache or by conversion."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...user_cache import known_sha256
from ..hub import ModelFiles, weights_sha256
from ..pooling import Pooling
from ..sentence_folder import Dense, SentenceFolder
from ..tokens import fast_tokenizer
from .cache import (
    Conversion,
    Facts,
    conversion_key,
    keep_conversion,
    load_conversion,
    remember_refusal,
    was_refused,
)
from .openvino_runtime import OpenVinoRuntime, Runtime
from .processor import has_gpu, may_have_gpu

if TYPE_CHECKING:
    from .torch_runtime import SentenceNetwork, Transformer


class NetworkLoader:
    """Loader of a model's network with its pooling and head.

    Only methods that convert or load the network import torch and transformers.

    Parameters
    ----------
    trusted : run Python code that comes with the model.

    Attributes
    ----------
    sha256 : of the transformer's weights, combined with those of Dense layers, if any.
    key : cache key of the conversion.
    """

    def __init__(
        self, files: ModelFiles, folder: SentenceFolder, pooling: Pooling, *, trusted: bool
    ) -> None:
        self._files, self._folder, self._pooling, self._trusted = files, folder, pooling, trusted
        self.sha256 = self._combined_sha256()
        head = ",".join(type(part).__name__ for part in folder.head)
        self.key = conversion_key(files.folder, self.sha256, f"{pooling} {head}")

    def load(self, precision: str) -> tuple[Runtime, Facts, Any]:
        """Load runtime, facts and tokenizer from the cache, or convert the model."""
        key = self.key
        on_gpu = precision != "int8" and may_have_gpu() and has_gpu()
        if not self._trusted and not on_gpu and (kept := load_conversion(key)):
            return OpenVinoRuntime(kept.model, precision, key), kept.facts, kept.tokenizer

        from .torch_runtime import openvino_model, torch_runtime

        network = self._build(self._transformer)
        facts = self._transformer.facts(network.dim)
        tokenizer = fast_tokenizer(self._transformer.tokenizer)
        refused = was_refused(key) and precision != "int8"
        model = None if refused else openvino_model(network, precision, self._transformer)
        if model is None:
            if not on_gpu:
                remember_refusal(key)
            return torch_runtime(network, precision), facts, tokenizer
        if not self._trusted and hasattr(tokenizer, "save"):
            keep_conversion(key, Conversion(facts, tokenizer, model))
            # The saved model rounds slightly differently; use it, as later processes will.
            kept = load_conversion(key)
            model = kept.model if kept else model
        return OpenVinoRuntime(model, precision, key), facts, tokenizer

    def load_layers(self, mode: str, precision: str) -> Runtime:
        """Load the network that pools every layer by a mode."""
        from .torch_runtime import LayersNetwork, openvino_model, torch_runtime

        network = LayersNetwork(self._transformer.module, mode).eval()
        model = openvino_model(network, precision, self._transformer)
        if model is None:
            return torch_runtime(network, precision)
        return OpenVinoRuntime(model, precision)

    def network(self) -> SentenceNetwork:
        """Load the network in torch, on the CPU, in float32."""
        return self._build(self._load_transformer())

    def _build(self, transformer: Transformer) -> SentenceNetwork:
        from .torch_runtime import build_network

        return build_network(transformer, self._pooling, self._folder.head)

    @cached_property
    def _transformer(self) -> Transformer:
        return self._load_transformer()

    def _load_transformer(self) -> Transformer:
        from .torch_runtime import load_transformer

        return load_transformer(
            self._files, self._folder.transformer, trust_remote_code=self._trusted
        )

    def _combined_sha256(self) -> str:
        found = weights_sha256(self._folder.transformer)
        dense = [
            known_sha256(part.weights) for part in self._folder.head if isinstance(part, Dense)
        ]
        return hashlib.sha256("".join([found, *dense]).encode()).hexdigest() if dense else found
