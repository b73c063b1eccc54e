"""NetworkLoader: a model's network, ready to run: built, from the cache, or converted.

The cache has networks converted for OpenVINO: loading one needs neither torch nor transformers,
whose imports take seconds, a large part of the time of a search from the command line.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slimdex.errors import InputError
from slimdex.system.extras import require
from slimdex.system.once import cached_property
from slimdex.system.progress import progress
from slimdex.system.user_cache import (
    cache_folder,
    cached_folder,
    known_sha256,
    load_remembered,
    remember,
)

from ..model_folder import Dense, SentenceFolder, read_json
from ..models import ModelFiles, weights_sha256
from ..pooling import Pooling
from ..tokens import fast_tokenizer
from .bert import read_network
from .openvino_operations import openvino_model
from .openvino_runtime import (
    Conversion,
    Facts,
    OpenVinoRuntime,
    Runtime,
    has_gpu,
    may_have_gpu,
    openvino_library,
)
from .quick_runtime import QuickRuntime, starts_quickly

if TYPE_CHECKING:
    from .torch_runtime import SentenceNetwork, Transformer

LAYOUT = 1
"""Version of the cache's format."""
LIBRARIES = ("slimdex", "openvino", "torch", "transformers", "tokenizers")
"""Packages whose versions a conversion depends on."""
NETWORK_CODE = ("torch_runtime.py", "torch_pooling.py", "../pooling.py", "bert_folder.py")
"""Modules that a conversion depends on; paths relative to this module."""
FACTS = "facts.json"
TOKENIZER = "tokenizer.json"
MODEL = "model.xml"
SMALL_FILES = ("*.json", "*.txt", "*.model")


class NetworkLoader:
    """Loader of a model's network with its pooling and head.

    Only methods that convert a network, or load it for a GPU, import torch and transformers.

    `sha256` is that of the transformer's weights, combined with those of Dense layers, if any. If
    `trusted`, Python code that comes with the model is run.
    """

    def __init__(
        self, files: ModelFiles, folder: SentenceFolder, pooling: Pooling, *, trusted: bool
    ) -> None:
        self._files = files
        self._folder = folder
        self._pooling = pooling
        self._trusted = trusted
        self.sha256 = self._combined_sha256()

    @cached_property
    def key(self) -> str:
        """Cache key of the conversion."""
        head = ",".join(str(part) for part in self._folder.head)
        return conversion_key(self._files.folder, self.sha256, f"{self._pooling} {head}")

    def load(self, precision: str) -> tuple[Runtime, Facts, Any]:
        """Return the runtime, facts and tokenizer of a model.

        They are built without torch if possible, otherwise loaded from the cache of conversions, or
        else converted by torch.
        """
        on_gpu = _on_gpu(precision)

        # Without torch: a network built here, or a cached conversion.
        if not self._trusted and not on_gpu:
            parts = self._load_without_torch(precision)
            if parts is not None:
                return parts

        # With torch: convert the model, or run it in torch if that is impossible.
        progress("converting the model", 0, 1)
        transformer, network = self._load_in_torch()
        from .torch_runtime import TorchRuntime, converted_model  # takes seconds to load

        facts = transformer.facts(network.dim)
        tokenizer = fast_tokenizer(transformer.tokenizer)
        key = self.key
        # Don't repeat a failed conversion, except for int8, which must report the reason.
        refused = load_remembered(f"{key}.refused") and precision != "int8"
        model = None if refused else converted_model(network, precision, transformer)
        if model is None:
            if not on_gpu:
                remember(f"{key}.refused", True)  # these versions can't convert it
            return TorchRuntime(network, precision), facts, tokenizer

        # Cache the conversion.
        if not self._trusted and hasattr(tokenizer, "save"):
            keep_conversion(key, Conversion(facts, tokenizer, model))
            # The saved model rounds slightly differently; use it, as later processes will.
            saved = load_conversion(key)
            if saved is not None:
                model = saved.model
        progress("converting the model", 1, 1)
        return OpenVinoRuntime(model, precision), facts, tokenizer

    def network(self) -> SentenceNetwork:
        """Load the network in torch, on the CPU, in float32."""
        return self._load_in_torch()[1]

    def _load_without_torch(self, precision: str) -> tuple[Runtime, Facts, Any] | None:
        """Return the runtime, facts and tokenizer; None if the model needs torch.

        Raises `InputError` for a malformed folder.
        """
        try:
            parts = read_network(self._folder, self._pooling)
            if parts is None:
                conversion = load_conversion(self.key)
                if conversion is None:
                    return None
                converted = OpenVinoRuntime(conversion.model, precision)
                return converted, conversion.facts, conversion.tokenizer
            network, facts, tokenizer = parts

            def start() -> OpenVinoRuntime:
                release = network.family.weights.release
                return OpenVinoRuntime(openvino_model(network), precision, release)

            # Only OpenVINO knows which precision the processor supports.
            is_quick = starts_quickly() and precision != "auto"
            runtime: Runtime
            runtime = QuickRuntime(network, precision, start) if is_quick else start()
            return runtime, facts, tokenizer
        except InputError:
            raise
        except (OSError, ValueError, RuntimeError) as error:  # OpenVINO's are RuntimeErrors
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(
                f"model {self._files.name!r}: {reason}; expected a folder with a transformers "
                "model or a hub id"
            ) from error

    def _load_in_torch(self) -> tuple[Transformer, SentenceNetwork]:
        """Load the transformer, and its network with pooling and head, on the CPU, in float32.

        Raises `InputError` if torch is missing.
        """
        path = self._folder.transformer / "config.json"
        kind = read_json(path).get("model_type") if path.is_file() else None
        what = f"model {self._files.name!r} ({kind}, pooling {self._pooling})"
        require(what, "torch", "torch", "transformers")
        from .torch_runtime import build_network, load_transformer  # takes seconds to load

        transformer = load_transformer(
            self._files, self._folder.transformer, trust_remote_code=self._trusted
        )
        return transformer, build_network(transformer, self._pooling, self._folder.head)

    def _combined_sha256(self) -> str:
        """Return the SHA-256 of the transformer, combined with those of any Dense layers."""
        transformer = weights_sha256(self._folder.transformer)
        digests = [transformer]
        for part in self._folder.head:
            if isinstance(part, Dense):
                digests.append(known_sha256(part.weights))
        if len(digests) == 1:
            return transformer
        return hashlib.sha256("".join(digests).encode()).hexdigest()


def _on_gpu(precision: str) -> bool:
    """Return whether torch will run the network on a GPU; int8 runs in OpenVINO on the CPU."""
    return precision != "int8" and may_have_gpu() and has_gpu()


def conversion_key(folder: Path, sha256: str, pooling: str) -> str:
    """Cache key: a digest of weights, settings and package versions."""
    parts = [str(LAYOUT), sha256, pooling, *map(_version, LIBRARIES)]

    # The code that builds the network, and the model's settings.
    code_folder = Path(__file__).parent
    for name in NETWORK_CODE:
        parts += map(known_sha256, sorted(code_folder.glob(name)))
    for pattern in SMALL_FILES:
        for path in sorted(folder.rglob(pattern)):
            parts += [path.name, known_sha256(path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def load_conversion(key: str) -> Conversion | None:
    """Load a cached conversion; None if it is missing or damaged. A damaged one is deleted."""
    try:
        folder = cache_folder() / key
        if not (folder / FACTS).is_file():
            return None
    except (OSError, RuntimeError):  # an unreadable folder, or no home
        return None
    try:
        from tokenizers import Tokenizer  # not needed without a conversion

        manifest = json.loads((folder / FACTS).read_text())
        for name, digest in manifest["files"].items():
            if known_sha256(folder / name) != digest:
                raise ValueError(name)
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        model = openvino_library().Core().read_model(folder / MODEL)
        return Conversion(Facts(**manifest["facts"]), tokenizer, model)
    except Exception:  # libraries raise anything for a damaged cache
        shutil.rmtree(folder, ignore_errors=True)
        return None


def keep_conversion(key: str, conversion: Conversion) -> None:
    """Cache a conversion for later processes; failures to write are ignored."""

    def write(folder: Path) -> None:
        library = openvino_library()
        library.save_model(conversion.model, folder / MODEL, compress_to_fp16=False)
        conversion.tokenizer.save(str(folder / TOKENIZER))

        # Checksums reveal damaged files.
        files = {path.name: known_sha256(path) for path in folder.iterdir()}
        manifest = {"facts": asdict(conversion.facts), "files": files}
        (folder / FACTS).write_text(json.dumps(manifest))

    with suppress(OSError, RuntimeError):
        cached_folder(key, write)


def _version(package: str) -> str:
    """Return the version of an installed package; empty if it is missing."""
    # Slow to load, and only needed to look for a conversion.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""
