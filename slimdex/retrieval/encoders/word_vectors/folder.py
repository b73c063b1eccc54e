"""Folders of static vectors: model2vec's, sentence-transformers' StaticEmbedding, and ours.

All have a matrix in safetensors and a ``tokenizer.json``. Ours are in model2vec's format, which its
`StaticModel` and sentence-transformers read. Reading them here needs neither library, checks them,
and loads them in less time.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows
from slimdex.system.atomic_files import check_new, publish_folder
from slimdex.system.once import cached_property

from ..model_folder import (
    MODULES,
    SETTINGS,
    Prompts,
    read_dimensions,
    read_json,
    read_prompts,
)
from ..tokens import read_tokenizer
from .pieces import unknown_id

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
    weights : (tokens,), factors of the tokens' vectors.
    mapping : (tokens,), the row of each token; None if rows are token ids.
    dropped : a token that is omitted from texts.
    normalize : whether text vectors are scaled to unit length.
    definition : the tokenizer as JSON, if it was read from a file.
    known_sha256 : hash computed while a word vector file was parsed.
    prompts : prefixes of texts, whose tokens count as theirs.
    """

    vectors: Matrix
    tokenizer: Any
    weights: NDArray[np.float32] | None = None
    mapping: Rows | None = None
    dropped: int | None = None
    normalize: bool = False
    definition: str | None = None
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
        digest.update((self.definition or self.tokenizer.to_str()).encode())
        arrays: list[NDArray[Any] | None] = [self.vectors, self.weights, self.mapping]
        for array in arrays:
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
            digest.update(b"|")  # so that a missing array changes the hash
        return digest.hexdigest()

    def as_in_a_folder(self) -> StaticVectors:
        """Return these vectors ready for a folder: a row for each token, the tokenizer as JSON.

        Tokens that were added to the tokenizer, and have no row yet, get rows of zeros.
        """
        count = self.tokenizer.get_vocab_size(with_added_tokens=True)
        missing = count - self.tokens if self.mapping is None else 0
        vectors = self.vectors
        weights = self.weights
        if missing > 0:  # some models have more rows than tokens
            vectors = np.pad(vectors, ((0, missing), (0, 0)))
            weights = None if weights is None else np.pad(weights, (0, missing))
        return replace(
            self,
            vectors=vectors,
            weights=weights,
            definition=self.definition or self.tokenizer.to_str(),
            known_sha256=None,
        )


def static_place(folder: Path) -> Path | None:
    """Find the subfolder of a model that contains static vectors; None if there is none."""
    for name in PLACES:
        place = folder / name
        if (place / WEIGHTS).is_file() and _matrix_name(place / WEIGHTS):
            return place
    return None


def read_static(folder: Path) -> StaticVectors:
    """Read the static vectors of a folder.

    Raises `InputError` if there are none, a file is broken, or sizes do not match.
    """
    place = static_place(folder)
    if place is None:
        raise InputError(
            f"model {str(folder)!r}: no {WEIGHTS} with {MODEL2VEC!r} or {SENTENCE_TRANSFORMERS!r}; "
            "expected static vectors of model2vec or sentence-transformers"
        )

    # Read the matrix and the optional arrays.
    path = place / WEIGHTS
    name = _matrix_name(path) or ""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {}
            for key in (name, "weights", "mapping"):
                if key in file.keys():  # noqa: SIM118
                    arrays[key] = file.get_tensor(key)
    except (SafetensorError, TypeError, ValueError) as error:  # numpy has no type for some tensors
        raise InputError(f"{path}: {error}; expected tensors of numbers") from error
    vectors = _float32(path, name, arrays[name], 2)
    vectors = np.ascontiguousarray(vectors[:, : read_dimensions(folder)])

    # The tokenizer, and the model's settings.
    tokenizer = read_tokenizer(place / TOKENIZER)
    definition = (place / TOKENIZER).read_text(encoding="utf-8")
    config = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    normalizes = _normalizes(folder) or config.get("normalize") is True
    entries = config.get(CONFIG_KEY)
    keeps_unknown = isinstance(entries, dict) and entries.get("keeps_unknown") is True
    counts_unknown = name == SENTENCE_TRANSFORMERS or keeps_unknown

    # Each array must have a row for each token; with a mapping, the matrix need not.
    count = 1 + max(tokenizer.get_vocab().values(), default=-1)  # 0 for an empty vocabulary
    mapping = _mapping(path, arrays.get("mapping"), len(vectors))
    weights = arrays.get("weights")
    rows = {"mapping": mapping, "weights": weights}
    sizes = {} if mapping is not None else {name: len(vectors)}
    for key, array in rows.items():
        if array is not None and array.ndim:  # `_float32` refuses a single number
            sizes[key] = len(array)
    for what, size in sizes.items():
        if size < count or not count:
            raise InputError(
                f"{path}: {size:,} rows of {what!r}; expected {count:,}, one for each token in "
                f"{place / TOKENIZER}"
            )

    return StaticVectors(
        vectors=vectors,
        tokenizer=tokenizer,
        weights=None if weights is None else _float32(path, "weights", weights, 1),
        mapping=mapping,
        dropped=None if counts_unknown else unknown_id(tokenizer),
        normalize=normalizes,
        definition=definition,
        prompts=read_prompts(folder),
    )


def write_static(folder: Path, vectors: StaticVectors, about: dict[str, Any]) -> None:
    """Write a new folder atomically; `about` is stored in its `config.json`.

    Raises `InputError` if the path exists.
    """
    check_new(folder)
    complete = vectors.as_in_a_folder()
    arrays: dict[str, NDArray[Any]] = {MODEL2VEC: np.ascontiguousarray(complete.vectors)}
    if complete.weights is not None:
        arrays["weights"] = complete.weights
    if complete.mapping is not None:
        arrays["mapping"] = complete.mapping
    unknown_entry = {"keeps_unknown": True} if complete.dropped is None else {}

    # The configuration that model2vec reads.
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": complete.vectors.shape[1],
        "embedding_dtype": "float32",
        "normalize": complete.normalize,
        "max_length": None,
        CONFIG_KEY: about | unknown_entry,
    }

    # The modules that sentence-transformers reads.
    package = "sentence_transformers.models"
    modules: list[dict[str, Any]] = []
    modules.append({"idx": 0, "name": "0", "path": ".", "type": f"{package}.StaticEmbedding"})
    if complete.normalize:
        modules.append(
            {"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{package}.Normalize"}
        )

    def write(new: Path) -> None:
        save_file(arrays, new / WEIGHTS)
        (new / TOKENIZER).write_text(complete.definition or "", encoding="utf-8")
        (new / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")
        (new / MODULES).write_text(json.dumps(modules, indent=2), encoding="utf-8")
        if complete.prompts != Prompts():
            settings = {"prompts": asdict(complete.prompts)}
            (new / SETTINGS).write_text(json.dumps(settings, indent=2), encoding="utf-8")
        # safetensors makes its file private to the owner; give it the usual mode.
        usual_mode = (new / CONFIG).stat().st_mode
        (new / WEIGHTS).chmod(usual_mode)

    publish_folder(folder, write)


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
    modules = read_json(folder / MODULES, list)
    kinds = []
    for module in modules:
        type_ = str(module.get("type")) if isinstance(module, dict) else ""
        kinds.append(type_.rpartition(".")[2])
    if kinds not in (["StaticEmbedding"], ["StaticEmbedding", "Normalize"]):
        raise InputError(
            f"{folder / MODULES}: {', '.join(kinds)}; expected StaticEmbedding, or that and "
            "Normalize"
        )
    return len(kinds) == 2


def _float32(path: Path, name: str, array: NDArray[Any], ndim: int) -> NDArray[np.float32]:
    """Convert an array of a file; raise `InputError` for a wrong shape or non-finite numbers."""
    if array.ndim != ndim or 0 in array.shape or array.dtype.kind not in "fi":
        raise InputError(
            f"{path}: {name!r} is {array.dtype} {array.shape}; expected numbers, {ndim}-dimensional"
        )
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(numbers).all():
        raise InputError(f"{path}: {name!r} has NaN or infinity; expected finite numbers")
    return numbers


def _mapping(path: Path, array: NDArray[Any] | None, rows: int) -> Rows | None:
    """Convert a mapping of tokens to rows, if there is one; raise `InputError` if it is invalid."""
    if array is None:
        return None
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{path}: 'mapping' is {array.dtype} {array.shape}; expected row numbers")
    mapping: Rows = array.astype(np.int64)
    if len(mapping) and not 0 <= mapping.min() <= mapping.max() < rows:
        raise InputError(
            f"{path}: 'mapping' has rows {mapping.min()} to {mapping.max()}; "
            f"expected 0 to {rows - 1}"
        )
    return mapping
