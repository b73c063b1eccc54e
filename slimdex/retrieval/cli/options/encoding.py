"""Options of encoders, and of the processes that encode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError

from .opening import ApiKeyFile, Trust

if TYPE_CHECKING:
    from slimdex.indexes.execution.workers import Workers

    from ...encoders.base import Encoder

Pooling = Annotated[
    str | None,
    "How token vectors are pooled: cls, mean, max, last, pooler or wk, and @ with the "
    "layers to average: mean@1,-1; default: the model's own, or mean@-1. For word vectors: "
    "mean or sif.",
]
MaxLength = Annotated[
    int | None, "Most tokens to read of a text; default: the model's own, or 256."
]


@dataclass(frozen=True)
class EncoderOptions:
    """The encoder of a new index."""

    model: Annotated[
        str | None,
        "The encoder's model: a folder, a file of word vectors, a hub id, a name of "
        "`slimdex models`, or a server's http://HOST/v1#NAME; default: all-MiniLM-L6-v2, or none "
        "with --vectors.",
    ] = None
    pooling: Pooling = None
    max_length: MaxLength = None
    precision: Annotated[str, "Precision to encode in: auto, fp32, bf16, fp16 or int8."] = "auto"
    query_prompt: Annotated[
        str | None, "Text before each query; default: the model's own prompt."
    ] = None
    document_prompt: Annotated[
        str | None, "Text before each document; default: the model's own prompt."
    ] = None
    trust_remote_code: Trust = False
    dimensions: Annotated[
        int | None, "Dimensions to ask a server for; default: all that its model has."
    ] = None
    api_key_file: ApiKeyFile = None

    def opened(self) -> Encoder:
        """Load the encoder."""
        from ...encoders.hub import DEFAULT_MODEL
        from ...encoders.opening import open_encoder

        return open_encoder(**asdict(self) | {"model": self.model or DEFAULT_MODEL})


@dataclass(frozen=True)
class RayOptions:
    """Processes that encode, fit and code."""

    ray: Annotated[
        str | None,
        "ADDRESS|local",
        "Encode and fit on a Ray cluster: local, for one on this machine; or the address of a "
        "running one, whose machines need slimdex, and the model at the same path as here.",
    ] = None
    workers: Annotated[
        int | None, "N", "Workers for --ray, with a CPU each; default: as many as the cluster has."
    ] = None

    @contextmanager
    def started(self) -> Iterator[Workers]:
        """Start the workers, and stop them at the end.

        >>> with RayOptions().started() as workers:
        ...     list(workers.map(abs, [-1]))
        [(-1, 1)]
        """
        from slimdex.indexes.execution.workers import HERE

        if self.ray is None:
            if self.workers is not None:
                raise InputError(
                    f"--workers {self.workers} without --ray; expected --ray local or an address"
                )
            yield HERE
            return
        from ...cluster.ray_workers import RayWorkers

        with RayWorkers(self.ray, self.workers) as workers:
            yield workers
