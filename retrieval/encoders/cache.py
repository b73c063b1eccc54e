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

from .openvino_library import openvino_library

LAYOUT = 1
"""Version of what a kept conversion consists of."""
LIBRARIES = ("slimdex", "openvino", "torch", "transformers", "tokenizers")
OWN_CODE = ("torch_runtime.py", "pooling.py")
"""What a conversion is made by."""
FACTS, TOKENIZER, MODEL = "facts.json", "tokenizer.json", "model.xml"
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
    parts += [_digest(Path(__file__).with_name(name)) for name in OWN_CODE]
    for pattern in SMALL_FILES:
        for path in sorted(folder.rglob(pattern)):
            parts += [path.name, _digest(path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def load_conversion(key: str) -> Conversion | None:
    """A kept conversion, or None if there is none that is whole."""
    try:
        folder = cache_folder() / key
        if not (folder / FACTS).is_file():
            return None
    except (OSError, RuntimeError):  # a folder that can't be looked at, or no home
        return None
    try:
        from tokenizers import Tokenizer

        said = json.loads((folder / FACTS).read_text())
        for name, digest in said["files"].items():
            if _digest(folder / name) != digest:
                raise ValueError(name)
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        model = openvino_library().Core().read_model(folder / MODEL)
        return Conversion(Facts(**said["facts"]), tokenizer, model)
    except Exception:  # a damaged cache is no cache; the libraries raise what they like
        shutil.rmtree(folder, ignore_errors=True)
        return None


def keep_conversion(key: str, conversion: Conversion) -> None:
    """Keep a conversion for the next process; if there is no room, it is made again."""
    with suppress(OSError, RuntimeError):
        folder = cache_folder() / key
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=folder.parent, prefix="new-"))
        try:
            library = openvino_library()
            library.save_model(conversion.model, new / MODEL, compress_to_fp16=False)
            conversion.tokenizer.save(str(new / TOKENIZER))
            files = {path.name: _digest(path) for path in new.iterdir()}
            said = {"facts": asdict(conversion.facts), "files": files}
            (new / FACTS).write_text(json.dumps(said))
            if not folder.exists():
                new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def was_refused(key: str) -> bool:
    """Whether OpenVINO could not convert this network before."""
    try:
        return (cache_folder() / f"{key}.refused").is_file()
    except (OSError, RuntimeError):
        return False


def remember_refusal(key: str) -> None:
    """Do not try again to convert this network with these versions."""
    with suppress(OSError, RuntimeError):
        cache_folder().mkdir(parents=True, exist_ok=True)
        (cache_folder() / f"{key}.refused").touch()


def remembered(name: str) -> Any:
    """What was found out and remembered under a name; None if it is not there, or not whole."""
    try:
        return json.loads((cache_folder() / f"{name}.json").read_bytes())
    except (OSError, RuntimeError, ValueError):
        return None


def remember(name: str, value: Any) -> None:
    """Keep a small fact, as JSON can hold it; of processes that write at once, the last one's."""
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
    """Where conversions are kept: SLIMDEX_CACHE, or slimdex in the user's cache folder."""
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
