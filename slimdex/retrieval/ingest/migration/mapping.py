"""Mapping: an index whose queries and new documents another encoder encodes, through a map.

The documents keep their vectors; one commit adds the map, another removes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slimdex.indexes.errors import InputError
from slimdex.indexes.maps.affine_map import AffineMap

from ...atomic_files import publish
from ...encoders.adapters import MappedEncoder, plain_spec
from ...encoders.base import Encoder

if TYPE_CHECKING:
    from ...collection import Collection


def map_encoder(collection: Collection, source: Encoder, made: AffineMap) -> None:
    """Encode queries and new documents with `source` from now on, mapped into the index's space.

    New documents are cut into shorter passages if it reads fewer tokens. Raises `InputError` if the
    index is mapped already.
    """
    with collection.change():
        check_unmapped(collection)
        state = collection.commit_log.next_state()
        most: int | None = getattr(source, "max_length", None)
        if state.passages is not None and most is not None:
            state = replace(state, passages=min(state.passages, most))
        record = publish(collection.path / state.new_name("map"), made.save)
        spec = plain_spec(MappedEncoder(source, made, state.encoder).spec())
        collection.give(source)
        collection.commit_log.commit(
            replace(state, encoder=spec, files=state.files | {"map": record})
        )
        collection.show()


def undo(collection: Collection) -> None:
    """Drop the vectors that replace the others, if they are not in use yet, or else the map.

    Without the map, queries and documents are encoded by the encoder of the documents again. Raises
    `InputError` if there is neither.
    """
    with collection.change():
        state = collection.commit_log.next_state()
        if state.replacement is not None:
            collection.commit_log.commit(replace(state, replacement=None))
            collection.show()
            return
        if "map" not in state.files:
            raise InputError(f"{collection.path}: no migration to undo")
        files = {role: record for role, record in state.files.items() if role != "map"}
        collection.commit_log.commit(replace(state, encoder=state.encoder["target"], files=files))
        collection.show()


def check_unmapped(collection: Collection) -> None:
    """Raise `InputError` if the index's encoder is mapped already."""
    if "map" in collection.state.files:
        raise InputError(f"{collection.path}: its encoder is mapped already; undo that first")
