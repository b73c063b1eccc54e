"""What the tests of files share: a folder's documents, and the pieces of a text by its parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.files.file_source import FileSource
from slimdex.retrieval.sources.files.outline import Extract


def read(folder: Path) -> tuple[dict[str, Document], list[str]]:
    """A folder's documents by id, and what is said at the end."""
    source = FileSource.of_folder(str(folder))
    found = {document.id: document for batch in source.batches() for document in batch}
    return found, source.omissions()


def pieces(of: Extract | Document) -> list[tuple[Sequence[str], str, str]]:
    """Headings, anchor and text of each part."""
    ends = [*(part.start for part in of.parts[1:]), len(of.text)]
    return [
        (tuple(part.headings), part.anchor, of.text[part.start : end].strip())
        for part, end in zip(of.parts, ends, strict=True)
    ]
