"""Folders of static vectors: model2vec's, sentence-transformers' StaticEmbedding, and ours.

All have a matrix in safetensors and a ``tokenizer.json``. Ours are in model2vec's format, which its
`StaticModel` and sentence-transformers read. Reading them here needs neither library.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows
from slimdex.system.once import cached_property

from ..model_folder import (
    MODULES,
    SETTINGS,
    Prompts,
    module_kind,
    read_dimensions,
    read_json,
    read_prompts,
)
from ..pieces import unknown_id
from ..runtimes.bert_folder import DTYPES, Weights
from ..tokens import read_tokenizer

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
CONFIG = "config.json"
PLACES = ("", "0_StaticEmbedding")
"""Subfolders that may contain the two files."""
MODEL2VEC = "embeddings"
SENTENCE_TRANSFORMERS = "embedding.weight"
"""Names of the matrix in each format."""
CONFIG_KEY = "slimdex"
"""Key of slimdex's own entries in `config.json`."""


@dataclass(frozen=True)
class StaticVectors:
    """A vector for each token, and the tokenizer.

    Attributes
    ----------
    vectors : (rows, d) float32.
    tokenizer : of `tokenizers`.
    definition : the tokenizer as JSON.
    weights : (tokens,), factors of the tokens' vectors.
    mapping : (tokens,), the row of each token; None if rows are token ids.
    dropped : a token that is omitted from texts.
    normalize : whether text vectors are scaled to unit length.
    known_sha256 : hash that was computed before.
    prompts : prefixes of texts, whose tokens count as theirs.
    """

    vectors: Matrix
    tokenizer: Any
    definition: str
    weights: NDArray[np.float32] | None = None
    mapping: Rows | None = None
    dropped: int | None = None
    normalize: bool = False
    known_sha256: str | None = None
    prompts: Prompts = field(default_factory=Prompts)

    @property
    def tokens(self) -> int:
        """Number of tokens, including the dropped one."""
        return len(self.vectors) if self.mapping is None else len(self.mapping)

    @cached_property
    def sha256(self) -> str:
        """Hash of everything that determines vectors."""
        if self.known_sha256:
            return self.known_sha256
        facts = [self.normalize, self.dropped, self.vectors.shape]
        digest = hashlib.sha256(json.dumps(facts).encode())
        digest.update(self.definition.encode())
        arrays: list[NDArray[Any] | None] = [self.vectors, self.weights, self.mapping]
        for array in arrays:
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
            digest.update(b"|")  # so that a missing array changes the hash
        return digest.hexdigest()


def static_place(folder: Path) -> Path | None:
    """Find the subfolder of a model that contains static vectors; None if there is none."""
    for name in PLACES:
        place = folder / name
        if (place / WEIGHTS).is_file() and _matrix_name(place / WEIGHTS):
            return place
    return None


def read_static(folder: Path) -> StaticVectors:
    """Read the static vectors of a folder; the matrix is mapped, as it may be larger than memory.

    Raises `InputError` if there are none, a file is broken, or sizes do not match.
    """
    place = static_place(folder)
    if place is None:
        raise InputError(
            f"model {str(folder)!r}: no {WEIGHTS} with {MODEL2VEC!r} or {SENTENCE_TRANSFORMERS!r}; "
            "expected static vectors of model2vec or sentence-transformers"
        )
    path = place / WEIGHTS
    name = _matrix_name(path) or ""
    try:
        with safe_open(path, framework="numpy") as file:
            is_float = file.get_slice(name).get_dtype() in DTYPES
            vectors = Weights([path])[name] if is_float else file.get_tensor(name)
            others = {
                key: file.get_tensor(key) for key in set(file.keys()) & {"weights", "mapping"}
            }
    except (SafetensorError, TypeError, ValueError) as error:  # numpy has no type for some tensors
        raise InputError(f"{path}: {error}; expected tensors of numbers") from error

    # There must be a row for each token; with a mapping, a number of a row.
    tokenizer = read_tokenizer(place / TOKENIZER)
    count = 1 + max(tokenizer.get_vocab().values(), default=-1)
    weights = others.get("weights")
    mapping = others.get("mapping")
    by_token = [vectors if mapping is None else mapping, *([] if weights is None else [weights])]
    fits = vectors.ndim == 2 and vectors.size and all(each.ndim for each in by_token)
    if not fits or not 0 < count <= min(map(len, by_token)):
        raise InputError(
            f"{path}: expected numbers for each of {count:,} tokens, as in {TOKENIZER}"
        )
    if mapping is not None and not 0 <= mapping.min() <= mapping.max() < len(vectors):
        raise InputError(f"{path}: 'mapping' of other rows; expected 0 to {len(vectors) - 1}")

    # The model's settings.
    config = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    entries = config.get(CONFIG_KEY)
    keeps_unknown = isinstance(entries, dict) and entries.get("keeps_unknown") is True
    counts_unknown = name == SENTENCE_TRANSFORMERS or keeps_unknown
    kept = vectors[:, : read_dimensions(folder)]
    return StaticVectors(
        vectors=np.ascontiguousarray(kept, dtype=np.float32),
        tokenizer=tokenizer,
        definition=(place / TOKENIZER).read_text(encoding="utf-8"),
        weights=None if weights is None else weights.astype(np.float32),
        mapping=None if mapping is None else mapping.astype(np.int64),
        dropped=None if counts_unknown else unknown_id(tokenizer),
        normalize=_normalizes(folder) or config.get("normalize") is True,
        prompts=read_prompts(folder),
    )


def write_static(folder: Path, vectors: StaticVectors) -> None:
    """Write static vectors into an empty folder."""
    arrays: dict[str, NDArray[Any]] = {MODEL2VEC: np.ascontiguousarray(vectors.vectors)}
    if vectors.weights is not None:
        arrays["weights"] = vectors.weights
    if vectors.mapping is not None:
        arrays["mapping"] = vectors.mapping

    # The configuration that model2vec reads.
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": vectors.vectors.shape[1],
        "embedding_dtype": "float32",
        "normalize": vectors.normalize,
        "max_length": None,
        CONFIG_KEY: {"keeps_unknown": vectors.dropped is None},
    }

    # The modules that sentence-transformers reads.
    package = "sentence_transformers.models"
    modules: list[dict[str, Any]] = []
    modules.append({"idx": 0, "name": "0", "path": ".", "type": f"{package}.StaticEmbedding"})
    if vectors.normalize:
        modules.append(
            {"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{package}.Normalize"}
        )

    save_file(arrays, folder / WEIGHTS)
    (folder / TOKENIZER).write_text(vectors.definition, encoding="utf-8")
    (folder / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")
    (folder / MODULES).write_text(json.dumps(modules, indent=2), encoding="utf-8")
    if vectors.prompts != Prompts():
        settings = {"prompts": asdict(vectors.prompts)}
        (folder / SETTINGS).write_text(json.dumps(settings, indent=2), encoding="utf-8")
    # safetensors makes its file private to the owner; give it the usual mode.
    (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)


def _matrix_name(path: Path) -> str | None:
    """Name of the matrix in a safetensors file; None if there is none."""
    try:
        with safe_open(path, framework="numpy") as file:
            names = set(file.keys())
    except (SafetensorError, OSError):
        return None
    return next((name for name in (MODEL2VEC, SENTENCE_TRANSFORMERS) if name in names), None)


def _normalizes(folder: Path) -> bool:
    """Return whether `modules.json`, if present, has a Normalize; refuse other modules."""
    if not (folder / MODULES).is_file():
        return False
    kinds = [module_kind(module, folder) for module in read_json(folder / MODULES, list)]
    if kinds not in (["StaticEmbedding"], ["StaticEmbedding", "Normalize"]):
        raise InputError(
            f"{folder / MODULES}: {', '.join(kinds)}; expected StaticEmbedding, or that and "
            "Normalize"
        )
    return len(kinds) == 2
