"""Change: the next commit of an index while one writer makes it.

Every change has three steps: 1. append or write files, and then fsync all of them together, before
2. replace the manifest; 3. delete files that it no longer names. A crash before 2 leaves the old
state, after 2 the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slimdex.errors import CorruptError, SlimdexError
from slimdex.indexes.arrays import NO_ROWS, Rows, merge_rows, without
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.system.append_only import BLOCK_BYTES, digests_after_growth
from slimdex.system.once import cached_property
from slimdex.system.workers import IN_THIS_PROCESS, Workers

from . import ids
from .columns import BUILT_IN, copy_columns, to_merge, write_columns
from .ids import IDS
from .manifest import NO_CHECKSUM, Manifest, append_only_files
from .new_documents import NO_DOCUMENTS, NewDocuments
from .origins import Origins, write_origins
from .passages import DocumentRows
from .row_flags import DELETION, RowSets, flag_files
from .snapshot import Snapshot
from .state import LONGEST_TRAILING, MOST_TRAILING, Before, State

Undo = Literal["alone", "with the last", "never"]
"""Ways to undo a commit: see `Change.commit`."""
Publish = Callable[[Manifest, ReducedIndex | None], None]
"""Make a manifest the committed one, with its index if that is in memory."""


class Change:
    """The next commit, while one thread prepares it; one call of `commit` publishes it.

    Without that call nothing changes, and a later change deletes the files that it wrote.

    Parameters
    ----------
    base : the committed state that it follows.
    publish : makes its manifest the committed one.

    Attributes
    ----------
    state : the state to commit, with numbers of its own; after that, the committed one.
    columns : the user's columns, of the new documents too: name -> type.
    new : the documents that it adds.
    new_textless : those of its new rows that have no text, in order.
    origins : first row of a document -> its new origin, for documents whose origin it changes.
    workers : compute work that can be split.
    """

    def __init__(
        self, base: Snapshot, publish: Publish, workers: Workers = IN_THIS_PROCESS
    ) -> None:
        self.base = base
        self.path = base.path
        self.workers = workers
        old = base.state
        self.state = replace(old, generation=old.generation + 1, version=old.version + 1)
        self.columns: Mapping[str, str] = base.columns
        self.new: NewDocuments = NO_DOCUMENTS
        self.new_textless = NO_ROWS
        self.origins = dict[int, str | None]()
        self._publish = publish
        self._checksums = base.manifest.checksums

    @property
    def is_needed(self) -> bool:
        """Whether columns or origins have changed."""
        base = self.base
        is_same = (self.state.origins, self.columns) == (base.state.origins, base.columns)
        return not is_same or bool(self.origins)

    @cached_property
    def document_rows(self) -> DocumentRows:
        """Which documents have several rows, once `new` has the new ones."""
        new = self.new.document_rows(self.base.state.rows)
        return self.base.document_rows.with_later(new)

    def replace_block(self, file: str, block: int, sha256: str) -> None:
        """Give one block of a file another checksum."""
        digests = [*self._checksums.get(file, [])]
        digests += [NO_CHECKSUM] * (block + 1 - len(digests))
        digests[block] = sha256
        self._checksums = {**self._checksums, file: digests}

    def commit(
        self,
        state: State | None = None,
        *,
        delete: Rows = NO_ROWS,
        restore: Rows = NO_ROWS,
        undo: Undo = "alone",
        index: ReducedIndex | None = None,
    ) -> None:
        """Publish the change, and end it.

        Parameters
        ----------
        state : by default `state`.
        delete, restore : rows to delete, and deleted ones that come back.
        undo : "alone"; "with the last" change; or "never", and then earlier changes can't be
            undone either. A commit that changes neither documents, fit nor words is always undone
            with the last change. One that replaces the vectors, or prepares to do so, is never
            undone.
        index : the index of the new state, if it is in memory.

        Raises `OSError` if the disk failed: the manifest shows whether it is committed.
        """
        self.base.store.engine.ensure_here()
        manifest = self._following(state or self.state, undo, delete, restore)
        self._publish(manifest, index)
        self.state = manifest.state

    def commit_copies(self, manifest: Manifest) -> None:
        """Commit a manifest of new files that have copies of only the live rows.

        This can't be undone, since rows are renumbered.
        """
        old = self.base.manifest
        state = replace(manifest.state, epoch=old.state.epoch + 1, before=None)
        manifest = self._with_checksums(replace(manifest, state=state))
        self._publish(manifest.with_new_name(old.commits), None)

    def _following(self, state: State, undo: Undo, deleted: Rows, restored: Rows) -> Manifest:
        """Write the remaining files, and return the manifest to commit."""
        # The state, with origins and columns.
        old = self.base.manifest
        has_moved = len(deleted) + len(restored) > 0
        state = replace(state, before=self._before(state, undo, has_moved))
        if self.origins:
            state = with_origins(self.path, state, {**self.base.store.origins, **self.origins})
        state = self._with_columns(state)

        # The sets of rows, and their files.
        row_sets = RowSets(
            deleted=without(merge_rows(old.deleted, deleted), restored),
            textless=merge_rows(old.textless, self.new_textless),
            documents=self.document_rows,
        )
        flags, deletions = flag_files(self.path, old.state)
        if old.state.rows < state.rows:
            flags.append(row_sets.flags(old.state.rows, state.rows))
        entries = np.concatenate([deleted, ~restored]).astype(DELETION)
        if len(entries):
            deletions.append(entries.tobytes())
        state = replace(state, deletion_count=old.state.deletion_count + len(entries))
        manifest = Manifest(state, dict(self.columns), row_sets).with_new_name(old.commits)

        # If these two steps fail, for example on a full disk, a later commit repeats them.
        for with_fewer_late in (self._merge, self._with_ids):
            with suppress(OSError, SlimdexError):
                manifest = with_fewer_late(manifest)
        return self._with_checksums(manifest)

    def _before(self, state: State, undo: Undo, has_moved: bool) -> Before | None:
        """The state that undoing this change restores; None if it can't be undone.

        `has_moved` is true if the change deletes or restores documents.
        """
        old = self.base.state
        is_preparing = state.replacement not in (None, old.replacement)
        if undo == "never" or is_preparing or state.vectors != old.vectors:
            return None
        if undo == "with the last" or not (has_moved or _kept(old) != _kept(state)):
            return old.before
        return Before(
            version=old.version,
            rows=old.rows,
            deletions=old.deletion_count,
            reducer=old.reducer,
            requested=old.requested,
            hybrid=old.hybrid,
            lexical=old.words is not None,
        )

    def _with_columns(self, state: State) -> State:
        """The state with a file of columns of the rows that are in none, unless they are few."""
        first = state.column_rows
        are_few = state.rows - first <= MOST_TRAILING
        if first == state.rows or (are_few and self.new.longest_record <= LONGEST_TRAILING):
            return state

        # The log has the first of these rows.
        store = self.base.store
        parts = [self.new.values(store.rows, self.columns)]
        if first < store.rows:
            parts.insert(0, store.values(first, store.rows, self.columns))

        # Columns that none of these documents has are left out.
        used = {name for columns in parts for name, *_ in columns}
        users = [(name, type_) for name, type_ in self.columns.items() if name in used]
        path = self.path / state.new_name("columns")
        with closing(store.engine.cursor()) as connection:
            file = write_columns(connection, path, range(first, state.rows), users, parts)
        return replace(state, column_files=[*state.column_files, file])

    def _merge(self, manifest: Manifest) -> Manifest:
        """The manifest with fewer files of columns, if many have piled up."""
        state = manifest.state
        files = state.column_files
        first = to_merge(files)
        if len(files) - first < 2:
            return manifest

        # Merge the last files, in a new generation, since this change may have used its own one.
        state = replace(state, generation=state.generation + 1)
        path = self.path / state.new_name("columns")
        rows = range(files[first].first, files[-1].stop)
        with self.base.store.at_commit(manifest).reading() as connection:
            merged = copy_columns(connection, path, rows, [*BUILT_IN, *manifest.columns])
        return replace(manifest, state=replace(state, column_files=[*files[:first], merged]))

    def _with_ids(self, manifest: Manifest) -> Manifest:
        """Write another file of ids, if the manifest has outgrown its file."""
        state = manifest.state
        if state.rows - state.id_rows <= max(ids.LEAST_LATER, state.rows // ids.LATER_SHARE):
            return manifest
        store = self.base.store.at_commit(manifest)
        record = store.write_ids(self.path / state.new_name(IDS))
        files = state.files | {IDS: record}
        return replace(manifest, state=replace(state, files=files, id_rows=state.rows))

    def _with_checksums(self, manifest: Manifest) -> Manifest:
        """The manifest with the checksums of its files, computed of the blocks that are new.

        Raises `CorruptError` if a block that was extended had been damaged before: its new
        checksum would cover that.
        """
        checksums = dict[str, list[str]]()
        sizes = {each.path: each.nbytes for each in append_only_files(self.path, self.base.state)}
        for file in append_only_files(self.path, manifest.state):
            digests = [*self._checksums.get(file.path.name, [])]
            before = sizes.get(file.path, 0)
            if file.nbytes != before:
                first, rest = divmod(before, BLOCK_BYTES)
                known = digests[first] if rest and first < len(digests) else None
                old, new = digests_after_growth(file.path, before, file.nbytes, known)
                if rest and old != known:
                    path = file.path
                    raise CorruptError(f"{path}: damaged in its last block; see `slimdex verify`")
                digests[first:] = new
            checksums[file.path.name] = digests
        return replace(manifest, checksums=checksums)


def with_origins(folder: Path, state: State, origins: Origins) -> State:
    """Write the origins of documents that differ from the log's; return the state that names them.

    Without any, nothing is written.
    """
    if not origins:
        return state
    record = write_origins(folder / state.new_name("origins"), origins)
    return replace(state, files=state.files | {"origins": record})


def _kept(state: State) -> tuple[Any, ...]:
    """Parts of a state that change with documents, fit or words."""
    return state.rows, state.requested, state.reducer, state.words is None
