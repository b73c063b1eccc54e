"""Conversions: networks that OpenVINO has converted before, kept in the user's cache.

With one of them at hand neither torch nor transformers is imported, which would take seconds: a
search from the command line waits for its answer, not for its libraries. Everything here can be
removed at any time.
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

LAYOUT = 1
"""Version of what a kept conversion consists of."""
LIBRARIES = ("slimdex", "openvino", "torch", "transformers", "tokenizers")
SMALL_FILES = ("*.json", "*.txt", "*.model")


@dataclass(frozen=True)
class Facts:
    """What is to be known of a network without loading it.

    Attributes
    ----------
    dim : of its vectors.
    width, layers : of its hidden states, and transformer layers, embeddings not counted.
    longest : tokens of a text that it can read.
    pad_id : the token that fills up batches.
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
    """A kept network: facts, a tokenizer of `tokenizers`, and a model of OpenVINO's."""

    facts: Facts
    tokenizer: Any
    model: Any


def conversion_key(folder: Path, sha256: str, pooling: str) -> str:
    """A name for everything that decides what is converted: weights, settings, versions."""
    parts = [str(LAYOUT), sha256, pooling, *map(_version, LIBRARIES)]
    for pattern in SMALL_FILES:
        for path in sorted(folder.rglob(pattern)):
            parts += [path.name, hashlib.sha256(path.read_bytes()).hexdigest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def load_conversion(key: str) -> Conversion | None:
    """A kept conversion, or None if there is none that can be read."""
    folder = cache_folder() / key
    if not (folder / "facts.json").is_file():
        return None
    try:
        import openvino
        from tokenizers import Tokenizer

        facts = Facts(**json.loads((folder / "facts.json").read_text()))
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        return Conversion(facts, tokenizer, openvino.Core().read_model(folder / "model.xml"))
    except Exception:  # a damaged cache is no cache; the libraries raise what they like
        shutil.rmtree(folder, ignore_errors=True)
        return None


def keep_conversion(key: str, conversion: Conversion) -> None:
    """Keep a conversion for the next process; if there is no room, it is made again."""
    import openvino

    folder = cache_folder() / key
    with suppress(OSError, RuntimeError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=folder.parent, prefix="new-"))
        try:
            openvino.save_model(conversion.model, new / "model.xml", compress_to_fp16=False)
            conversion.tokenizer.save(str(new / "tokenizer.json"))
            (new / "facts.json").write_text(json.dumps(asdict(conversion.facts)))
            if not folder.exists():
                new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def cache_folder() -> Path:
    """Where conversions are kept: SLIMDEX_CACHE, or slimdex in the user's cache folder."""
    if own := os.environ.get("SLIMDEX_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slimdex"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
