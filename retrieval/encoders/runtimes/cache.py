"""Cache of networks converted for OpenVINO, in the user's cache folder.

A cached conversion needs neither torch nor transformers, whose imports take seconds: a large part
of the time of a search from the command line. The cache can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .openvino_library import openvino_library

LAYOUT = 1
"""Version of the cache's format."""
LIBRARIES = ("slimdex", "openvino", "torch", "transformers", "tokenizers")
OWN_CODE = ("torch_runtime.py", "../pooling.py", "networks/*.py")
"""Packages whose versions a conversion depends on."""
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
    parts += [_digest(path) for name in OWN_CODE for path in sorted(here.glob(name))]
    for pattern in SMALL_FILES:
        for path in sorted(folder.rglob(pattern)):
            parts += [path.name, _digest(path)]
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
            if _digest(folder / name) != digest:
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
            files = {path.name: _digest(path) for path in new.iterdir()}
            manifest = {"facts": asdict(conversion.facts), "files": files}
            (new / FACTS).write_text(json.dumps(manifest))
            if not folder.exists():
                new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def was_refused(key: str) -> bool:
    """Return whether an earlier conversion of this network failed."""
    try:
        return (cache_folder() / f"{key}.refused").is_file()
    except (OSError, RuntimeError):
        return False


def remember_refusal(key: str) -> None:
    """Record that this network can't be converted with these versions."""
    with suppress(OSError, RuntimeError):
        cache_folder().mkdir(parents=True, exist_ok=True)
        (cache_folder() / f"{key}.refused").touch()


def remembered(name: str) -> Any:
    """Load a value saved by `remember`; None if missing or damaged."""
    try:
        return json.loads((cache_folder() / f"{name}.json").read_bytes())
    except (OSError, RuntimeError, ValueError):
        return None


def remember(name: str, value: Any) -> None:
    """Save a small JSON-serialisable value; the last of concurrent writers wins."""
    with suppress(OSError, RuntimeError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, new = tempfile.mkstemp(dir=folder, prefix="new-")
        try:
            with open(descriptor, "w") as file:
                json.dump(value, file)
            os.replace(new, folder / f"{name}.json")
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise


def cache_folder() -> Path:
    """Cache folder: SLIMDEX_CACHE, or slimdex in the user's cache folder."""
    if own := os.environ.get("SLIMDEX_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slimdex"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
