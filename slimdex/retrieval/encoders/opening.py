"""Opening an encoder by model name: a transformer, static vectors or a server's.

Each kind is imported when it is opened. `Encoders` are those of an index.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import RLock
from typing import Any

from slimdex.errors import EncoderError, InputError, SlimdexError

from .adapters import VECTORS_ONLY, GivenEncoder, as_encoder, plain_spec
from .base import (
    PLACE,
    Encoder,
    as_recorded,
    check_unchanged,
    check_whole,
    is_address,
    is_loadable,
    is_same_encoder,
)


def is_static(model: str) -> bool:
    """Return whether a model name refers to word vectors: a file, or a folder of static vectors.

    Raises `InputError` if the model is not found.
    """
    # Loads readers of word vectors, and what finds and downloads models.
    from .models import FAST_MODEL
    from .word_vectors.static_encoder import has_word_vectors

    return model == FAST_MODEL or has_word_vectors(model)


def model_place(model: str) -> tuple[str, Path]:
    """Return a model's canonical name and its file or folder, downloading it if needed.

    Raises `InputError` if the model is not found.
    """
    if Path(model).is_file():
        path = Path(model).resolve()
        return str(path), path
    from .models import find_model  # loads what downloads models

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
    dimensions: int | None = None,
    api_key_file: str | Path | None = None,
) -> Encoder:
    """Open a model's encoder; the options are those of the class of its kind.

    Raises `InputError` if the model is not found, or an option does not apply to its kind.
    """
    prompts = {"query_prompt": query_prompt, "document_prompt": document_prompt}

    # A model in a server.
    if is_address(model):
        # Loads urllib3.
        from .over_http.connection import key_for, parse_address
        from .over_http.http_encoder import HttpEncoder

        requested = None if precision == "auto" else precision
        _check_none(model, "a model in a server", pooling=pooling, precision=requested)
        key = key_for(parse_address(model)[0], api_key_file)
        return HttpEncoder(
            model, dimensions=dimensions, max_length=max_length, api_key=key, **prompts
        )

    # Word vectors.
    key_file = None if api_key_file is None else str(api_key_file)
    _check_none(model, "a model on this machine", dimensions=dimensions, api_key_file=key_file)
    if is_static(model):
        # Loaded by `is_static`.
        from .models import FAST_MODEL
        from .word_vectors.static_encoder import StaticEncoder

        requested = None if precision in ("auto", StaticEncoder.precision) else precision
        _check_none(model, "word vectors", max_length=max_length, precision=requested)
        if model != FAST_MODEL:
            return StaticEncoder(model, pooling=pooling, **prompts)
        from .fast_encoder import FastEncoder  # loads the transformer it is made of

        _check_none(model, "weighted word vectors", pooling=pooling, **prompts)
        return FastEncoder()

    # A transformer.
    from .transformer import TransformerEncoder

    return TransformerEncoder(
        model,
        pooling=pooling,
        max_length=max_length,
        precision=precision,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        trust_remote_code=trust_remote_code,
    )


def _check_none(model: str, kind: str, **options: object) -> None:
    """Raise `InputError` if an option is set: none applies to this kind of model."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name}={value!r}; expected none for {kind}, as {model!r}")


def _check_named(model: str | None) -> None:
    """Raise `InputError` for an empty name of a model."""
    if model is not None and not model.strip():
        raise InputError(f"model {model!r}; expected a folder, a file, a hub id or a URL")


def default_encoder() -> Encoder:
    """Return the encoder of an index if the user chooses none: all-MiniLM-L6-v2."""
    from .transformer import TransformerEncoder  # loads runtimes of networks

    return TransformerEncoder()


def encoder_from_spec(
    spec: dict[str, Any],
    *,
    model: str | None = None,
    trust_remote_code: bool = False,
    api_key_file: str | Path | None = None,
) -> Encoder:
    """Open the encoder that an index was built with, and verify that it is the same.

    `model` is the model's location if it has moved. Raises `InputError` if it is missing or
    different, or has custom code that must be trusted again; and `CorruptError` if the spec is
    incomplete.
    """
    check_whole(spec)
    if not is_loadable(spec):
        raise InputError(
            f"this index was built with {spec!s:.99}: pass that encoder to open(), or vectors "
            "in place of texts"
        )
    if spec["type"] == VECTORS_ONLY:
        return GivenEncoder(spec["dim"])

    # A model in a server, or else on this machine.
    if spec["type"] == "http":
        from .over_http.http_encoder import http_from_spec  # loads urllib3

        return http_from_spec(spec, model=model, api_key_file=api_key_file)
    place = spec.get("model")
    if model is None and place and Path(place).is_absolute() and not Path(place).exists():
        raise InputError(
            f"model {place!r}: no such file or folder; if it has moved, record its place with "
            "`slimdex repair DIR --model PATH`"
        )
    if spec["type"] == "static":
        # Loads readers of word vectors.
        from .models import FAST_MODEL
        from .word_vectors.static_encoder import static_from_spec

        if place == FAST_MODEL and model is None:
            from .fast_encoder import FastEncoder  # loads the transformer it is made of

            encoder = FastEncoder()
            check_unchanged(encoder, spec, "sha256", "pooling")
            return encoder
        return static_from_spec(spec, model=model)
    # Loads runtimes of networks.
    from .transformer import encoder_from_spec as transformer_from_spec

    return transformer_from_spec(spec, model=model, trust_remote_code=trust_remote_code)


class Encoders:
    """Encoders of an index's states, by their specs: passed by the caller, or loaded on first use.

    Parameters
    ----------
    encoder : passed by the caller.
    moved : a spec, and the folder, hub id or URL where that encoder's model is now. Other specs are
        loaded from where they were: another process may change the encoder.
    trust_remote_code, api_key_file : options of `Collection.open`.
    """

    def __init__(
        self,
        encoder: Encoder | None = None,
        *,
        moved: tuple[dict[str, Any], str] | None = None,
        trust_remote_code: bool = False,
        api_key_file: str | Path | None = None,
    ) -> None:
        self._caller_encoders = [] if encoder is None else [encoder]
        self._moved = moved
        self._trusted = trust_remote_code
        self._key_file = api_key_file
        self._last: tuple[dict[str, Any], Encoder] | None = None
        self._loading = RLock()

    @classmethod
    def matching(
        cls,
        spec: dict[str, Any],
        encoder: Any = None,
        model: str | None = None,
        *,
        trust_remote_code: bool = False,
        api_key_file: str | Path | None = None,
    ) -> Encoders:
        """Create the encoders of an index that was built with the encoder of this spec.

        The options are those of `Collection.open`. Raises `InputError` if the caller passes an
        `encoder` whose vectors would not be comparable.
        """
        _check_named(model)

        # A caller's encoder must be the one that made the vectors.
        adapted = None
        if encoder is not None:
            adapted = as_encoder(encoder)
            requested = plain_spec(adapted.spec())
            if not is_same_encoder(requested, spec):
                raise InputError(
                    f"encoder {requested!s:.99}: other properties, or other vectors; this index "
                    f"was built with {spec!s:.99}"
                )
            adapted = as_recorded(adapted, spec)
        return cls(
            adapted,
            moved=None if model is None else (spec, model),
            trust_remote_code=trust_remote_code,
            api_key_file=api_key_file,
        )

    def of(self, spec: dict[str, Any]) -> Encoder:
        """The encoder of a spec; the last one stays in memory."""
        with self._loading:
            if self._last is None or self._last[0] != spec:
                self._last = spec, self.open(spec)
            return self._last[1]

    def open(self, spec: dict[str, Any]) -> Encoder:
        """Return the encoder of a spec: the caller's if one matches, otherwise a loaded one."""
        for encoder in self._caller_encoders:
            if is_same_encoder(plain_spec(encoder.spec()), spec):
                return encoder
        moved_to = None
        if self._moved is not None and is_same_encoder(spec, self._moved[0]):
            moved_to = self._moved[1]
        return self._load(spec, moved_to)

    def can_open(self, spec: dict[str, Any]) -> bool:
        """Return whether texts can be encoded by the encoder of a spec.

        False if the caller supplied the vectors, or if the encoder is a function that the caller
        has not passed again.
        """
        if spec.get("type") == VECTORS_ONLY:
            return False
        return bool(self._caller_encoders) or is_loadable(spec)

    def give(self, encoder: Encoder) -> None:
        """Use an encoder of the caller for the state whose spec it has."""
        with self._loading:
            self._caller_encoders.append(encoder)

    def move(self, spec: dict[str, Any], model: str) -> dict[str, Any]:
        """Load the encoder of a spec from another place; returns the spec with that place.

        Raises `InputError` if its weights are others.
        """
        _check_named(model)
        moved = self._load(spec, model)
        with self._loading:
            self._caller_encoders = [moved]
            self._last = None
            self._moved = None
        return spec | {key: value for key, value in moved.spec().items() if key in PLACE}

    def _load(self, spec: dict[str, Any], model: str | None) -> Encoder:
        """Open the encoder of a spec, from `model` if it has moved.

        Raises `EncoderError` if its model is missing or different, and `InputError` for a function
        that the caller has to pass.
        """
        try:
            return encoder_from_spec(
                spec, model=model, trust_remote_code=self._trusted, api_key_file=self._key_file
            )
        except (InputError, OSError) as error:
            if not is_loadable(spec):
                raise
            message = str(error)
            if not isinstance(error, InputError):  # a file error, which does not name the model
                reason = getattr(error, "strerror", error)
                message = f"model {model or spec.get('model')!r}: {reason}"
            raise EncoderError(message) from error


def weights_faults(spec: dict[str, Any]) -> list[str]:
    """Check the weights of an index's transformer by reading them in full.

    Returns a list with one line if they have changed or can't be read, otherwise an empty list. A
    model that is missing on this machine is not a fault of the index.
    """
    if spec.get("type") != "transformer" or spec.get("trust_remote_code"):
        return []

    # Only this check needs these modules, which take time to import.
    from slimdex.system.user_cache import read_in_full

    from .model_folder import read_folder
    from .models import PACKAGED, find_model
    from .pooling import parse_pooling
    from .runtimes.network_loader import NetworkLoader

    try:
        check_whole(spec)
        model = spec["model"]
        if not os.path.isdir(model) and model not in PACKAGED:
            return []
        with read_in_full():
            files = find_model(model)
            folder = read_folder(files.folder, skip_pooling="head" not in spec)
            pooling = parse_pooling(spec["pooling"])
            sha256 = NetworkLoader(files, folder, pooling, trusted=False).sha256
    except SlimdexError as error:
        return [str(error)]
    expected = spec["sha256"]
    if sha256 == expected:
        return []
    return [f"model {model!r} has sha256 {sha256}; the index was built with {expected}"]
