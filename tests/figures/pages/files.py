"""Folders and files: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.sources.files import limits
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
        "A text file may have 64 MiB, a PDF or office file 256 MiB, a compressed file 64 MiB when "
        "unpacked. - The text of a PDF or an archive may have 10,485,760 characters. - Files are "
        "read in a separate process with 2 GiB of address space (not on Windows; macOS does not "
        "enforce it) and 60 s for each file",
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
        "An .xlsx file may have 1 GiB when unpacked, and the rows of Excel and SQLite as JSON "
        "1 GiB or 64 times the file. - A may have 256 KiB",
        lambda: [
            *(LARGEST_WORKBOOK / GIB, LARGEST_ROWS / GIB, ROWS_PER_BYTE),
            limits.LARGEST_RULES / 1024,
        ],
    ),
    Figure("may have 33,554,432 characters", lambda: [LARGEST_OBJECT]),
]
