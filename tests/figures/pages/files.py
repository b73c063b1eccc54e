"""Folders and files: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.sources.files import limits
from slimdex.retrieval.sources.files.formats.definitions.by_grammar import LARGEST
from slimdex.retrieval.sources.tabular.table_worker import (
    LARGEST_ROWS,
    LARGEST_WORKBOOK,
    ROWS_PER_BYTE,
)
from slimdex.retrieval.sources.text_files import LARGEST_OBJECT

from ..links import Figure

MIB, GIB = 1 << 20, 1 << 30

FIGURES = [
    Figure(
        "A text file may be up to 64 MiB, a PDF or office file up to 256 MiB, and a compressed "
        "file up to 64 MiB when unpacked. - The text of a PDF or an archive is limited to "
        "10,485,760 characters. - Files are read in a separate process, which gets 2 GiB of "
        "address space (not on Windows; macOS does not enforce it) and 60 s for each file",
        lambda: [
            *(limits.LARGEST_FILE / MIB, limits.LARGEST_BOOK / MIB),
            *(limits.LARGEST_UNPACKED / MIB, limits.LARGEST_PACKED_TEXT),
            *(limits.MEMORY / GIB, limits.SECONDS),
        ],
    ),
    Figure(
        "DuckDB tables get 60 s, plus 60 s for each 64 MiB of the file",
        lambda: [limits.SECONDS, limits.SECONDS, limits.LARGEST_FILE / MIB],
    ),
    Figure(
        "An .xlsx file may be up to 1 GiB when unpacked. The rows of an Excel or SQLite file, as "
        "JSON, may be up to 1 GiB or 64 times the file, whichever is larger. - A may be up to 256 "
        "KiB",
        lambda: [
            *(LARGEST_WORKBOOK / GIB, LARGEST_ROWS / GIB, ROWS_PER_BYTE),
            limits.LARGEST_RULES / 1024,
        ],
    ),
    Figure("Code over 16,777,216 characters", lambda: [LARGEST]),
    Figure("limited to 33,554,432 characters", lambda: [LARGEST_OBJECT]),
]
