"""Mapping: an index whose queries and new documents another encoder encodes, through a map.

The documents keep their vectors; one commit adds the map, another removes it.
"""

from __future__ import annotations

from dataclasses import replace

from slimdex.indexes.errors import InputError
from slimdex.indexes.maps.affine_map import AffineMap

from ...atomic_files import publish
from ...encoders.adapters import MappedEncoder
from ...encoders.base import Encoder
from ...open_index import OpenIndex, plain


def map_encoder(core: OpenIndex, source: Encoder, made: AffineMap) -> None:
    """Encode queries and new documents with `source` from now on, mapped into the index's space.

    New documents are cut into shorter passages if it reads fewer tokens. Raises `InputError` if the
    index is mapped already.
    """
    with core.change():
        check_unmapped(core)
        state = core.commit_log.next_state()
        most: int | None = getattr(source, "max_length", None)
        if state.passages is not None and most is not None:
            state = replace(state, passages=min(state.passages, most))
        record = publish(core.path / state.new_name("map"), made.save)
        spec = plain(MappedEncoder(source, made, state.encoder).spec())
        core.give(source)
        core.commit_log.commit(replace(state, encoder=spec, files=state.files | {"map": record}))
        core.show()


def undo(core: OpenIndex) -> None:
    """Drop the vectors that replace the others, if they are not in use yet, or else the map.

    Without the map, queries and documents are encoded by the encoder of the documents again. Raises
    `InputError` if there is neither.
    """
    with core.change():
        state = core.commit_log.next_state()
        if state.replacement is not None:
            core.commit_log.commit(replace(state, replacement=None))
            core.show()
            return
        if "map" not in state.files:
            raise InputError(f"{core.path}: no migration to undo")
        files = {role: record for role, record in state.files.items() if role != "map"}
        core.commit_log.commit(replace(state, encoder=state.encoder["target"], files=files))
        core.show()


def check_unmapped(core: OpenIndex) -> None:
    """Raise `InputError` if the index's encoder is mapped already."""
    if "map" in core.state.files:
        raise InputError(f"{core.path}: its encoder is mapped already; undo that first")
