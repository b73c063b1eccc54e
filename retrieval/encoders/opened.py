"""An encoder by the name of its model: a transformer or static vectors, as the name leads to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError

from .hub import find_model
from .transformer import TransformerEncoder
from .transformer import encoder_from_spec as transformer_from_spec
from .word_vectors.folder import static_place
from .word_vectors.static_encoder import StaticEncoder, static_from_spec

OpenedEncoder = TransformerEncoder | StaticEncoder


def is_static(model: str) -> bool:
    """Whether a name leads to a file, or to a folder with static vectors.

    Raises
    ------
    InputError
        If it leads nowhere.
    """
    return Path(model).is_file() or static_place(find_model(model).folder) is not None


def model_place(model: str) -> tuple[str, Path]:
    """What a model is found by again, and where it lies: a file, or a folder.

    Raises
    ------
    InputError
        If a name leads nowhere.
    """
    if Path(model).is_file():
        path = Path(model).resolve()
        return str(path), path
    files = find_model(model)
    return files.name, files.folder


def open_encoder(
    model: str,
    *,
    pooling: str | None = None,
    max_length: int | None = None,
    precision: str = "auto",
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    trust_remote_code: bool = False,
) -> OpenedEncoder:
    """The encoder of a model, with the options of `TransformerEncoder` or `StaticEncoder`.

    Raises
    ------
    InputError
        If there is no such model, or an option is none of its kind.
    """
    if not is_static(model):
        return TransformerEncoder(
            model,
            pooling=pooling,
            max_length=max_length,
            precision=precision,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            trust_remote_code=trust_remote_code,
        )
    options = {
        "max_length": max_length,
        "precision": None if precision in ("auto", StaticEncoder.precision) else precision,
        "query_prompt": query_prompt,
        "document_prompt": document_prompt,
    }
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name}={value!r}; expected none for word vectors, as in {model!r}")
    return StaticEncoder(model, pooling=pooling)


def is_loadable(spec: dict[str, Any]) -> bool:
    """Whether an encoder can be loaded by its spec: a function has to be passed by its user."""
    return spec.get("type") in ("static", "transformer")


def encoder_from_spec(
    spec: dict[str, Any], *, model: str | None = None, trust_remote_code: bool = False
) -> OpenedEncoder:
    """The encoder that an index was built with, checked to be the same.

    Parameters
    ----------
    model : where it is now, if that has moved.

    Raises
    ------
    InputError
        If it is another, or is not there; if its code would have to be trusted anew.
    """
    if spec.get("type") == "static":
        return static_from_spec(spec, model=model)
    return transformer_from_spec(spec, model=model, trust_remote_code=trust_remote_code)
