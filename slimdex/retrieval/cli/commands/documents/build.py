"""`slimdex build`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError, SlimdexError
from slimdex.indexes.execution.progress import listening

from ... import console
from ...errors import StoppedError, is_interrupt
from ...options.default_index import FOLDER, VARIABLE, new_index
from ...options.encoding import EncoderOptions, RayOptions
from ...options.opening import Json, WriteOptions
from ...options.quality import TargetOptions
from ...options.settings import SettingsOptions, StorageOptions
from ...options.sources import SourceOptions, Vectors

if TYPE_CHECKING:
    from slimdex.indexes.settings import Settings
    from slimdex.retrieval.encoders.base import Encoder
    from slimdex.retrieval.quality.tuning.targets import Target


def build(
    sources: SourceOptions,
    encoder: EncoderOptions,
    settings: SettingsOptions,
    storage: StorageOptions,
    cluster: RayOptions,
    target: TargetOptions,
    writing: WriteOptions,
    out: Annotated[
        Path | None, f"A new folder for the index; default: {VARIABLE}, or {FOLDER} here."
    ] = None,
    vectors: Vectors = None,
    as_json: Json = False,
) -> None:
    """Build an index. After an interruption, the same command goes on where it stopped."""
    from slimdex.retrieval.asked_sources import remember_sources
    from slimdex.retrieval.commands import with_addition
    from slimdex.retrieval.encoders.given_encoder import GivenEncoder
    from slimdex.retrieval.operations.building import build as build_index
    from slimdex.retrieval.operations.building import choose_settings
    from slimdex.retrieval.temporary_files import offer

    wanted = settings.settings()
    aim = _target_beside(wanted, target)
    path = out or new_index()
    offer(path.absolute())
    asked = sources.asked(vectors)
    with listening(note=console.note):
        opened = asked.opened()

    def make_encoder() -> Encoder:
        given = opened.vectors if encoder.model is None else None
        return encoder.opened() if given is None else GivenEncoder(given.dim)

    with _told_if_built(path):
        with cluster.started() as workers, console.progress(), listening(note=console.note):
            collection, added = build_index(
                path,
                opened,
                make_encoder,
                wanted,
                wait=writing.wait,
                vector_dtype=storage.vector_dtype,
                passages=storage.passage_tokens,
                lexical=not storage.no_lexical,
                workers=workers,
                shared_filesystem=writing.shared_filesystem,
            )
        remember_sources(collection.path, asked, collection.state.origins)
        with collection, console.progress(), listening(note=console.note):
            added.notes.extend(choose_settings(collection, aim))
            facts = with_addition(collection, added)
        console.show_index(facts, as_json)


@contextmanager
def _told_if_built(path: Path) -> Iterator[None]:
    """After Ctrl-C, say so if all documents are committed: the same command would be refused."""
    try:
        yield
    except BaseException as error:
        if not (is_interrupt(error) and _holds_documents(path)):
            raise
        raise StoppedError(
            f"stopped; all documents are in {path} and can be searched (`slimdex tune` goes on)"
        ) from error


def _holds_documents(path: Path) -> bool:
    from slimdex.retrieval.storage.manifest import Manifest

    with suppress(OSError, SlimdexError):
        return Manifest.read(path).state.settings is not None
    return False


def _target_beside(settings: Settings, target: TargetOptions) -> Target | None:
    if target == TargetOptions():
        return None
    if settings != type(settings)():
        raise InputError("build: settings beside --agreement, --ram or --p99-ms; expected either")
    return target.target()
