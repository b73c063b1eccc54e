"""Networks in torch: a transformer, its pooling and head, from token ids to vectors.

Only this module imports torch and transformers. Import it late: they take seconds.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix

from ..model_folder import Dense, HeadPart, Truncate, check_model_folder
from ..models import ModelFiles
from ..pooling import POOLER, Pooling
from ..tokens import Ids, padding_id, random_batch
from .bert_folder import dense
from .openvino_runtime import CPU_TOKENS, Facts, fast_precision, openvino_library
from .torch_pooling import pool

GPU_TOKENS = 65_536
"""Tokens of a batch, including padding; enough to saturate a GPU."""
TOLERANCE = 2e-5
"""Largest relative difference of a converted network's vectors from torch's."""
PROBES = ((1, 3), (3, 7), (3, 12), (2, 300))
"""Shapes (texts, tokens) to test a conversion on, cut to the model's positions."""
POSITION_TABLES = ("position_embeddings", "wpe", "embed_positions")


@dataclass(frozen=True)
class Transformer:
    """Loaded transformer.

    Attributes
    ----------
    module : in evaluation mode, float32.
    tokenizer : transformers'.
    longest : maximum length of a text in tokens.
    has_pooler : True if it has a pooler with weights.
    """

    module: Any
    tokenizer: Any
    longest: int
    has_pooler: bool

    @property
    def width(self) -> int:
        """Width of its hidden states."""
        return int(self.module.config.hidden_size)

    @property
    def layers(self) -> int:
        """Number of layers, without the embeddings."""
        return int(self.module.config.num_hidden_layers)

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return int(self.module.get_input_embeddings().num_embeddings)

    def facts(self, dim: int) -> Facts:
        """Return the properties of a network of this transformer."""
        return Facts(
            dim=dim,
            width=self.width,
            layers=self.layers,
            longest=self.longest,
            pad_id=padding_id(self.tokenizer),
        )


class SentenceNetwork(nn.Module):
    """Network from ids and mask (n, seq) to vectors (n, dim)."""

    def __init__(
        self, transformer: nn.Module, pooling: Pooling, head: Sequence[nn.Module], dim: int
    ) -> None:
        super().__init__()
        self.transformer = transformer
        self.pooling = pooling
        self.dim = dim
        self.head = nn.Sequential(*head)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # Tokens of a prompt that is not pooled are marked by 2; the transformer reads them, too.
        seen = attention_mask if self.pooling.with_prompt else attention_mask.clamp(max=1)
        output = self.transformer(
            input_ids=input_ids,
            attention_mask=seen,
            output_hidden_states=self.pooling.needs_all_layers,
        )
        if self.pooling.mode == POOLER:
            pooled = output.pooler_output
        else:
            states = (
                output.hidden_states
                if self.pooling.needs_all_layers
                else [output.last_hidden_state]
            )
            pooled = pool(states, attention_mask, self.pooling)
        vectors: Tensor = self.head(pooled.float())
        return vectors


class TorchRuntime:
    """Torch runtime, on a GPU if there is one, else on the CPU.

    `precision` is any of `openvino_runtime.PRECISIONS` but int8.
    """

    def __init__(self, network: nn.Module, precision: str) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if precision == "auto":
            if device == "cpu":
                precision = fast_precision()
            else:  # GPUs are fast in half precision
                fast = torch.cuda.is_bf16_supported(including_emulation=False)
                precision = "bf16" if fast else "fp16"
        self.name = f"torch on {device}"
        self.precision = precision
        self._device = torch.device(device)
        self._network = network.to(self._device)
        self.batch_tokens = CPU_TOKENS if device == "cpu" else GPU_TOKENS
        self.streams = 1
        self._half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
        if (device, precision) == ("cpu", "fp16"):  # a CPU widens each number in every product
            self._half = None

    def run(self, batches: Iterable[tuple[Ids, Ids]]) -> Iterator[Matrix]:
        """Yield outputs in order; a GPU computes while batches before and after are transferred."""
        previous: Tensor | None = None  # output of the previous batch, which may still be running
        for ids, mask in batches:
            with (
                torch.inference_mode(),
                torch.autocast(self._device.type, self._half, enabled=self._half is not None),
            ):
                output = self._network(self._to_device(ids), self._to_device(mask)).float()
            # Wait for the previous batch while this one runs.
            if previous is not None:
                yield previous.cpu().numpy()
            previous = output
        if previous is not None:
            yield previous.cpu().numpy()

    def _to_device(self, array: Ids) -> Tensor:
        """Copy an array to the device; from pinned memory, a GPU copies while it computes."""
        tensor = torch.from_numpy(array)
        if self._device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)


class ConversionError(Exception):
    """Failure of OpenVINO to run a network as torch does."""


class Unit(nn.Module):
    """Normalisation to unit length; zero stays zero."""

    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1)


class First(nn.Module):
    """The first dimensions of vectors."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors[:, : self.dim]


def load_transformer(files: ModelFiles, folder: Path, *, trust_remote_code: bool) -> Transformer:
    """Load tokenizer and model from safetensors.

    Raises `InputError` if it is not a transformer, or some of its weights are missing.
    """
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    check_model_folder(folder)
    options = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
        loader: Any = transformers.AutoModel
        if config.is_encoder_decoder or _has_encoder_half(config):
            loader = transformers.AutoModelForTextEncoding
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations between torch and transformers
            model, info = loader.from_pretrained(
                folder, use_safetensors=True, dtype="float32", output_loading_info=True, **options
            )
    except Exception as error:  # transformers raises anything for a broken folder
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"model {files.name!r}: {reason}; expected a folder with a transformers model or a "
            "hub id"
        ) from error

    # Refuse what would give wrong vectors.
    missing = sorted(key for key in info["missing_keys"] if not _is_pooler(key))
    if missing:  # they would be initialised at random
        raise InputError(
            f"model {files.name!r}: no weights for {missing[0]} (of {len(missing)} missing); "
            "expected all of the model's"
        )
    if not hasattr(model.config, "hidden_size") or not hasattr(model.config, "num_hidden_layers"):
        raise InputError(
            f"model {files.name!r}: not a plain text encoder; expected a model with hidden states"
        )

    positions = _positions(model)
    limits = [tokenizer.model_max_length, *([] if positions is None else [positions])]
    # Only the pooler's weights can be missing at this point.
    has_pooler = any(_is_pooler(name) for name, _ in model.named_parameters())
    return Transformer(
        model.eval(), tokenizer, min(limits), has_pooler and not info["missing_keys"]
    )


def build_network(
    transformer: Transformer, pooling: Pooling, head: Sequence[HeadPart]
) -> SentenceNetwork:
    """Build the network of transformer, pooling and head.

    Raises `InputError` if the model lacks the layer or the pooler, or a Dense does not fit.
    """
    pooling.check_layers(transformer.layers)
    if pooling.mode == POOLER and not transformer.has_pooler:
        raise InputError(
            "pooling 'pooler': the model has no pooler; expected cls, mean, max or last"
        )

    # The modules after the pooling; each may change the width.
    modules = list[nn.Module]()
    width = transformer.width * len(pooling.modes)
    for part in head:
        if isinstance(part, Dense):
            weight, bias = dense(part, width)
            width = len(weight)
            modules.append(linear(weight, bias, part.activation))
        elif isinstance(part, Truncate):
            width = min(part.dim, width)
            modules.append(First(width))
        else:
            modules.append(Unit())
    return SentenceNetwork(transformer.module, pooling, modules, width).eval()


def converted_model(network: nn.Module, precision: str, transformer: Transformer) -> Any | None:
    """Convert the network for OpenVINO; None if torch should run it: on a GPU, or if that fails.

    Raises `InputError` for int8, which requires OpenVINO, if OpenVINO can't convert the network.
    """
    if torch.cuda.is_available() and precision != "int8":
        return None
    try:
        return _convert_somehow(network, transformer)
    except ConversionError as error:
        if precision == "int8":
            raise InputError(
                f"precision='int8': {error}; expected auto, fp32, bf16 or fp16"
            ) from error
        return None


def _convert_somehow(network: nn.Module, transformer: Transformer) -> Any:
    """Convert the network, with attention in plain products if torch's own can't be converted.

    In OpenVINO a window of local attention that is all padding gives NaN, as in ModernBERT.
    """
    try:
        return to_openvino(network, transformer)
    except ConversionError:
        attention = getattr(transformer.module.config, "_attn_implementation", None)
        if attention != "sdpa":
            raise
    transformer.module.set_attn_implementation("eager")
    try:
        return to_openvino(network, transformer)
    except ConversionError:
        transformer.module.set_attn_implementation(attention)  # torch will run it
        raise


def to_openvino(network: nn.Module, transformer: Transformer) -> Any:
    """Convert the network to an `openvino.Model`, in float32.

    Raises `ConversionError` if OpenVINO is missing, can't convert the network, or computes
    different vectors.
    """
    try:
        openvino = openvino_library()
    except ImportError as error:
        raise ConversionError(str(error)) from error

    # Trace the network, and compile the traced one.
    example = tuple(map(torch.from_numpy, random_batch((2, 5), transformer.vocabulary)))
    root = logging.getLogger()
    level = root.level
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # tracing warns about every shape
            # Skip tracing's own check: ours covers other shapes and masks.
            traced = torch.jit.trace(network, example, check_trace=False)
            model = openvino.convert_model(traced, example_input=example)
        request = (
            openvino.Core()
            .compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            .create_infer_request()
        )

        def run(ids: Ids, mask: Ids) -> Matrix:
            request.infer([ids, mask])
            output: Matrix = request.get_output_tensor().data
            return output

        # Compare its vectors with torch's.
        error_size = largest_difference(network, run, transformer)
        if not error_size <= TOLERANCE:  # also if it is NaN
            raise ConversionError(f"vectors differ by {error_size:.1e} from torch's")
    except ConversionError:
        raise
    except Exception as error:  # traced model code may raise anything
        raise ConversionError(" ".join(str(error).split())[:200]) from error
    finally:
        root.setLevel(level)  # the conversion silences every logger's warnings
    return model


def largest_difference(
    network: nn.Module, run: Callable[[Ids, Ids], Matrix], transformer: Transformer
) -> float:
    """Largest relative difference of a converted network's vectors, given by `run`, from torch's.

    Tracing may have frozen a branch, so batches of several shapes are compared.
    """
    differences = []
    for texts, tokens in PROBES:
        shape = texts, min(tokens, transformer.longest)
        ids, mask = random_batch(shape, transformer.vocabulary)
        with torch.inference_mode():
            exact = network(torch.from_numpy(ids), torch.from_numpy(mask)).float().numpy()
        differences.append(np.linalg.norm(run(ids, mask) - exact) / np.linalg.norm(exact))
    return float(np.max(differences))


def linear(weight: Matrix, bias: Matrix | None, activation: str) -> nn.Module:
    """Build a layer with a weight (out, in), a bias (out,) and a class of torch.nn."""
    out, width = weight.shape
    layer = nn.Linear(width, out, bias=bias is not None)
    arrays = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    layer.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return nn.Sequential(layer, getattr(nn, activation)())


def _has_encoder_half(config: Any) -> bool:
    """Return whether transformers has an encoder-only class for an encoder-decoder such as T5."""
    models: Any = transformers.MODEL_FOR_TEXT_ENCODING_MAPPING
    return type(config) in models and models[type(config)].__name__.endswith("EncoderModel")


def _is_pooler(key: str) -> bool:
    """Return whether a weight of this name belongs to the pooler."""
    return "pooler" in key.split(".")


def _positions(model: Any) -> int | None:
    """Return how many tokens a model's table of positions allows; None if it has no such table.

    In RoBERTa and similar models, positions start after the padding token's id.
    """
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in POSITION_TABLES and isinstance(module, nn.Embedding):
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
            return int(module.num_embeddings) - offset
    return None
