"""Copying: a committed state of an index as another folder, while others change the index.

Files that are open stay readable after they are removed, so all are opened first. Append-only files
only grow, and what follows the committed bytes is left out.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO

from slimdex.indexes.errors import CorruptError, InUseError
from slimdex.indexes.execution.progress import progress

from ..atomic_files import MANIFEST, check_new, publish, publish_folder, remove
from ..lexical.segment_folder import LIST, read_list, segment_files
from .document_file import parts
from .engine import Engine
from .manifest import BlockFile, Manifest
from .readings import ReadingFile
from .snapshot import Snapshot
from .state import State
from .verification import index_faults

TRIES = 20
"""Attempts to open all files of a state before others commit the next one: each takes a few
milliseconds."""
COPIED_AT_ONCE = 1 << 22


def copy_index(folder: Path, path: Path) -> Manifest:
    """Copy the committed state of a folder to a new one, and verify it; returns its manifest.

    Takes no lock and needs no permission to write to the index.

    Raises `InputError` if the path exists, `CorruptError` if a file of the index is damaged or
    missing, and `InUseError` if others change it faster than its files can be opened. Then there is
    no copy.
    """
    check_new(path)
    return publish_folder(path, lambda new: _copied(folder, new))


def _copied(folder: Path, new: Path) -> Manifest:
    for _ in range(TRIES):
        manifest = Manifest.committed(folder)
        try:
            _copy(folder, manifest, new)
            return manifest
        except (CorruptError, FileNotFoundError) as error:
            if manifest == Manifest.committed(folder):
                missing = f"{getattr(error, 'filename', None)}: missing"
                message = str(error) if isinstance(error, CorruptError) else missing
                raise CorruptError(message.replace(str(new), str(folder))) from error
            for part in new.iterdir():
                remove(part)
    raise InUseError(f"{folder}: others changed it {TRIES} times; try again later")


def _copy(folder: Path, manifest: Manifest, new: Path) -> None:
    """Copy the files of a manifest; raises `CorruptError` or `OSError` if one is not as it says."""
    lengths = {each.path.name: each.nbytes for each in _appended(folder, manifest.state)}
    with ExitStack() as stack:
        files = [
            (name, stack.enter_context((folder / name).open("rb")))
            for name in _names(folder, manifest.state)
        ]
        for done, (name, file) in enumerate(files):
            progress("copying files", done, len(files))
            (new / name).parent.mkdir(exist_ok=True)
            _write(file, new / name, lengths.get(name, sys.maxsize))
    publish(new / MANIFEST, manifest.write)
    with closing(Engine(new)) as engine:
        if faults := index_faults(Snapshot.of(engine, Manifest.read(new))):
            raise CorruptError(faults[0])


def _names(folder: Path, state: State) -> list[str]:
    """The files of a state, and those in its folders."""
    names = list[str]()
    for name in sorted(state.file_names):
        path = folder / name
        if path.is_dir():
            names += [f"{name}/{part}" for part in [LIST, *segment_files(read_list(path), path)]]
        else:
            names.append(name)
    return names


def _appended(folder: Path, state: State) -> list[BlockFile]:
    """The append-only files of a state; others of the state before have no length of their own."""
    files: list[BlockFile] = [state.vector_file(folder, state.rows)]
    if (norms := state.norm_file(folder)) is not None:
        files.append(norms)
    if state.lines is not None:
        files += parts(folder, state.lines, state.rows)
    if state.readings is not None:
        files.append(ReadingFile(folder / state.readings, state.readings_count))
    if state.replacement is not None:
        files.append(state.replacement.vector_file(folder))
    return files


def _write(file: BinaryIO, path: Path, length: int) -> None:
    with path.open("wb") as target:
        while length and (data := file.read(min(length, COPIED_AT_ONCE))):
            target.write(data)
            length -= len(data)
