"""Cache of networks converted for OpenVINO.

A cached conversion needs neither torch nor transformers, whose imports take seconds: a large part
of the time of a search from the command line.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...user_cache import cache_folder, known_sha256
from .processor import openvino_library

LAYOUT = 1
"""Version of the cache's format."""
LIBRARIES = ("slimdex", "openvino", "torch", "transformers", "tokenizers")
"""Packages whose versions a conversion depends on."""
OWN_CODE = ("torch_runtime.py", "../pooling.py", "networks/*.py")
FACTS, TOKENIZER, MODEL = "facts.json", "tokenizer.json", "model.xml"
SMALL_FILES = ("*.json", "*.txt", "*.model")


@dataclass(frozen=True)
class Facts:
    """Properties of a network, available without loading it.

    Attributes
    ----------
    dim : of its vectors.
    width, layers : width of its hidden states; number of layers without the embeddings.
    longest : maximum length of a text in tokens.
    pad_id : padding token.
    flops_per_token : two for each weight that a token is multiplied with.
    """

    dim: int
    width: int
    layers: int
    longest: int
    pad_id: int
    flops_per_token: int


@dataclass(frozen=True)
class Conversion:
    """Cached network: facts, a tokenizer of `tokenizers`, and an OpenVINO model."""

    facts: Facts
    tokenizer: Any
    model: Any


def conversion_key(folder: Path, sha256: str, pooling: str) -> str:
    """Cache key: a digest of weights, settings and package versions."""
    parts = [str(LAYOUT), sha256, pooling, *map(_version, LIBRARIES)]
    here = Path(__file__).parent
    parts += [known_sha256(path) for name in OWN_CODE for path in sorted(here.glob(name))]
    for pattern in SMALL_FILES:
        for path in sorted(folder.rglob(pattern)):
            parts += [path.name, known_sha256(path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def load_conversion(key: str) -> Conversion | None:
    """Load a cached conversion; None if missing or damaged."""
    try:
        folder = cache_folder() / key
        if not (folder / FACTS).is_file():
            return None
    except (OSError, RuntimeError):  # an unreadable folder, or no home
        return None
    try:
        from tokenizers import Tokenizer

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
    with suppress(OSError, RuntimeError):
        folder = cache_folder() / key
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=folder.parent, prefix="new-"))
        try:
            library = openvino_library()
            library.save_model(conversion.model, new / MODEL, compress_to_fp16=False)
            conversion.tokenizer.save(str(new / TOKENIZER))
            files = {path.name: known_sha256(path) for path in new.iterdir()}
            manifest = {"facts": asdict(conversion.facts), "files": files}
            (new / FACTS).write_text(json.dumps(manifest))
            if not folder.exists():
                new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
