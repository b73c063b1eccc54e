"""Model folders: safety checks, and the modules, prompts and limits of sentence-transformers.

``modules.json`` lists a Transformer, a Pooling, and any number of Dense and Normalize; other files
hold the prompts and the maximum length. The checks refuse contents that would run code, read files
elsewhere or exhaust memory; links are followed, since the hub's cache consists of links.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slimdex.errors import InputError
from slimdex.system.json_text import parse_json

from .pooling import PLAIN_MODES, WITHOUT_PROMPT

SINGLE = "model.safetensors"
MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
"""File with prompts and `truncate_dim`."""
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU", "ELU", "SELU", "LeakyReLU")
"""Classes of torch.nn supported as activations of Dense."""
POOLING_MODES = {mode.library_name: name for name, mode in PLAIN_MODES.items()}
"""Names of poolings in the configuration -> ours."""
OLD_POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of older configurations, in the order in which several poolings are joined."""
NO_LIMIT = 1 << 30
"""Maximum length for a folder that states none; the model's own limit then applies."""
QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
MOST_LAYERS = 1000
LARGEST = 1 << 24
"""Limit of other integers in a configuration; vocabularies and widths are far smaller."""


@dataclass(frozen=True)
class Dense:
    """Linear layer with an activation, stored in a subfolder."""

    folder: Path
    activation: str

    @property
    def weights(self) -> Path:
        """File of the layer's weights."""
        return self.folder / "model.safetensors"

    def __str__(self) -> str:
        return "Dense"


@dataclass(frozen=True)
class Normalize:
    """Normalisation to unit length."""

    def __str__(self) -> str:
        return "Normalize"


@dataclass(frozen=True)
class Truncate:
    """The first dimensions, as many as `dim`."""

    dim: int

    def __str__(self) -> str:
        return f"Truncate {self.dim}"


HeadPart = Dense | Normalize | Truncate
"""A module after the pooling, whose `str` an index keeps."""


@dataclass(frozen=True)
class Prompts:
    """Prefixes of texts."""

    query: str = ""
    document: str = ""

    def override(self, query: str | None, document: str | None) -> Prompts:
        """Return a copy with the given prompts; None keeps the present one."""
        return Prompts(
            self.query if query is None else query, self.document if document is None else document
        )


@dataclass(frozen=True)
class SentenceFolder:
    """Contents of a folder, or defaults if it has no `modules.json`.

    Attributes
    ----------
    transformer : folder of the transformer's files.
    pooling : as parsed by `slimdex.retrieval.encoders.pooling`.
    head : modules after the pooling, in order.
    max_length : maximum length of a text in tokens; None if not stated.
    lower_case : lower-case texts first.
    """

    transformer: Path
    pooling: str = "mean@-1"
    head: tuple[HeadPart, ...] = ()
    prompts: Prompts = field(default_factory=Prompts)
    max_length: int | None = None
    lower_case: bool = False


def read_folder(folder: Path, *, skip_pooling: bool = False) -> SentenceFolder:
    """Read a model's folder, without its pooling and head if `skip_pooling`.

    Raises `InputError` if a file is malformed, or the folder has an unsupported module.
    """
    modules = read_json(folder / MODULES, list) if (folder / MODULES).is_file() else []
    kinds = [module_kind(module, folder) for module in modules]
    transformer = folder
    if kinds and kinds[0] == "Transformer":
        transformer = _inside(folder, modules[0])

    # Settings of the transformer, and of the folder.
    limits: dict[str, Any] = {}
    for path in sorted(transformer.glob("sentence_*_config.json")):  # older names contain the model
        limits |= read_json(path)
    # If a sentence-transformers folder states no length, only the model limits it.
    length = limits.get("max_seq_length", NO_LIMIT if modules else None)
    if length is not None and not isinstance(length, int):
        raise InputError(f"{transformer}: max_seq_length {length!r}; expected a number")
    plain = SentenceFolder(
        transformer,
        prompts=read_prompts(folder),
        max_length=length,
        lower_case=bool(limits.get("do_lower_case")),
    )
    if not modules or skip_pooling:
        return plain

    # Pooling, and the modules after it.
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise InputError(
            f"{folder / MODULES}: begins with {', '.join(kinds[:2])}; expected Transformer, "
            "Pooling (or choose a pooling, which skips all modules but the transformer)"
        )
    pooling = _inside(folder, modules[1]) / "config.json"
    head: list[HeadPart] = [_head(module, folder) for module in modules[2:]]
    dimensions = read_dimensions(folder)
    if dimensions is not None:
        head.append(Truncate(dimensions))
    return replace(plain, pooling=_pooling(pooling), head=tuple(head))


def _head(module: Mapping[str, Any], folder: Path) -> Dense | Normalize:
    """Read a module that follows the pooling, from its entry in `modules.json`.

    Raises `InputError` if its kind or one of its settings is not supported.
    """
    kind = module_kind(module, folder)
    if kind == "Normalize":
        return Normalize()
    if kind != "Dense":
        raise InputError(f"{folder / MODULES}: module {kind}; expected Dense or Normalize")

    # A linear layer; our networks must support its activation.
    layer_folder = _inside(folder, module)
    config = read_json(layer_folder / "config.json")
    activation = str(config.get("activation_function", "torch.nn.Tanh"))
    name = activation.rpartition(".")[2]
    if not activation.startswith("torch.nn.") or name not in ACTIVATIONS:
        raise InputError(
            f"{layer_folder / 'config.json'}: activation {activation!r}; "
            f"expected one of torch.nn's {', '.join(ACTIVATIONS)}"
        )
    if config.get("use_residual"):
        raise InputError(f"{layer_folder / 'config.json'}: use_residual is not supported")
    if not (layer_folder / "model.safetensors").is_file():
        raise InputError(f"{layer_folder}: no model.safetensors (weights in a pickle are not read)")
    return Dense(layer_folder, name)


def _pooling(path: Path) -> str:
    """Read the configuration of a Pooling; return the text that `parse_pooling` takes.

    Raises `InputError` for an unsupported mode.
    """
    config = read_json(path)
    modes = config.get("pooling_mode")
    # Older folders have a key for each mode.
    if modes is None:
        modes = []
        for key, mode in OLD_POOLING_KEYS.items():
            if config.get(key):
                modes.append(mode)
        modes = modes or ["mean"]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if not modes or not all(mode in POOLING_MODES for mode in modes):
        raise InputError(
            f"{path}: pooling {'+'.join(map(str, modes))}; "
            f"expected some of {', '.join(POOLING_MODES)} (or choose a pooling)"
        )
    names = "+".join(POOLING_MODES[mode] for mode in modes)
    pooling = f"{names}@-1"
    return f"{pooling} {WITHOUT_PROMPT}" if config.get("include_prompt") is False else pooling


def read_prompts(folder: Path) -> Prompts:
    """Read the prompts of a model's folder; those that it does not state are empty.

    Raises `InputError` if they are malformed.
    """
    path = folder / SETTINGS
    prompts = _settings(folder).get("prompts") or {}
    named_texts = isinstance(prompts, dict) and all(
        text is None or isinstance(text, str) for text in prompts.values()
    )
    if not named_texts:
        raise InputError(f"{path}: prompts {prompts!r}; expected strings by name")

    def first_prompt(names: tuple[str, ...]) -> str:
        return next((prompts[name] or "" for name in names if name in prompts), "")

    # As in `encode_query` and `encode_document`, the default prompt is for other texts only.
    return Prompts(first_prompt(QUERY_PROMPTS), first_prompt(DOCUMENT_PROMPTS))


def read_dimensions(folder: Path) -> int | None:
    """Read how many dimensions of its vectors a model's folder keeps; None for all.

    Raises `InputError` if the number is malformed.
    """
    dimensions = _settings(folder).get("truncate_dim")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise InputError(f"{folder / SETTINGS}: truncate_dim {dimensions!r}; expected 1 or more")
    return dimensions


def _settings(folder: Path) -> Mapping[str, Any]:
    """Read the file of prompts and dimensions; empty if the folder has none."""
    path = folder / SETTINGS
    settings: Mapping[str, Any] = read_json(path) if path.is_file() else {}
    return settings


def module_kind(module: Any, folder: Path) -> str:
    """Return the class name of a module; raise `InputError` if it is from another library."""
    type_ = module.get("type") if isinstance(module, dict) else None
    if not isinstance(type_, str) or not type_.startswith("sentence_transformers."):
        raise InputError(
            f"{folder / MODULES}: module {module!r}; expected one of sentence_transformers"
        )
    return type_.rpartition(".")[2]


def _inside(folder: Path, module: Mapping[str, Any]) -> Path:
    """Return the folder of a module; raise `InputError` if it is outside the model's folder."""
    path = str(module.get("path", ""))
    # Resolving an absolute path such as \\HOST\share on Windows would contact that host.
    is_relative = "\0" not in path and not Path(path).anchor
    module_folder = (folder / path).resolve() if is_relative else folder
    if not is_relative or not module_folder.is_relative_to(folder.resolve()):
        raise InputError(
            f"{folder / MODULES}: path {module['path']!r}; expected a path inside the folder"
        )
    return module_folder


def check_model_folder(folder: Path) -> None:
    """Raise `InputError` for a folder without safetensors, or with harmful files.

    Harmful files could load other code, read files elsewhere, or exhaust memory. Custom code
    (`auto_map`) is refused by transformers, unless trusted.
    """
    if not any(folder.glob("*.safetensors")):
        raise InputError(f"model {str(folder)!r}: no model.safetensors in that folder")
    if (folder / ADAPTER).exists():
        raise InputError(
            f"{folder / ADAPTER}: an adapter of another model; expected a complete model"
        )
    if (folder / INDEX).exists():
        _check_index(folder / INDEX)

    # Check for settings that would load other code, or are too large.
    if (folder / "config.json").exists():
        for key, value in _items(read_json(folder / "config.json")):
            _check_item(folder / "config.json", key, value)


def read_json(path: Path, expected: type = dict) -> Any:
    """Read a JSON file of an expected type; raise `InputError` for anything else."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; expected JSON") from error
    if not isinstance(content, expected):
        raise InputError(f"{path}: {type(content).__name__}; expected a JSON {expected.__name__}")
    return content


def _check_index(path: Path) -> None:
    """Raise `InputError` if an index of several weight files names any outside its folder."""
    weight_map = read_json(path).get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else [weight_map]
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise InputError(f"{path}: weights in {name!r}; expected files in the folder")


def _check_item(path: Path, key: str, value: Any) -> None:
    """Raise `InputError` for a setting that would load code, or a number that is too large."""
    # A slash names a repository, whose compiled code transformers would download and load.
    if key.endswith("_implementation") and "/" in json.dumps(value):
        raise InputError(f"{path}: {key} {value!r}; expected one of transformers' own")
    most = MOST_LAYERS if "layer" in key else LARGEST
    if isinstance(value, int) and abs(value) > most:
        raise InputError(f"{path}: {key}={value}; expected at most {most}")


def _items(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, at any depth."""
    waiting = [(key, value)]
    while waiting:
        key, value = waiting.pop()
        yield key, value
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, item) for item in value]


def weight_files(folder: Path) -> list[Path]:
    """Files of a folder's weights: one, or several that each hold some of the tensors."""
    single = folder / SINGLE
    return [single] if single.exists() else sorted(folder.glob("*.safetensors"))
