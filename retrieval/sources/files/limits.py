"""Limits: what a file may cost, and the error that says why one is not read."""

from __future__ import annotations

LARGEST_FILE = 64 << 20
"""Bytes of a text file, or of one message of a mailbox."""
LARGEST_BOOK = 256 << 20
"""Bytes of a PDF, DOCX, ODT or EPUB file, which may hold pictures."""
LARGEST_UNPACKED = 64 << 20
"""Bytes that a compressed file, or what is read of an archive, may become."""
LARGEST_TEXT = 64 << 20
"""Characters of a document's text."""
LARGEST_PACKED_TEXT = 10 << 20
"""Characters of a document's text that comes out of a PDF or an archive."""
LARGEST_RULES = 256 << 10
"""Bytes of a `.gitignore`."""
MEMORY = 2 << 30
"""Bytes of address space that the process that reads files may have."""
SECONDS = 60.0
"""Time that reading one file may take."""


class UnreadableError(Exception):
    """Why a file can't be read, in a few words: they are told in brackets after its name."""


def size(number: int) -> str:
    """Bytes as a message says them.

    >>> size(64 << 20), size(2_100_000_000)
    ('64 MiB', '2,003 MiB')
    """
    return f"{number / (1 << 20):,.0f} MiB"


def too_large(number: int, most: int) -> UnreadableError:
    """The error for a file of so many bytes."""
    return UnreadableError(f"{size(number)}; expected at most {size(most)}")
