"""Limits of files, and the error for unreadable ones."""

from __future__ import annotations

LARGEST_FILE = 64 << 20
"""Largest text file or message of a mailbox, in bytes."""
LARGEST_BOOK = 256 << 20
"""Largest PDF, DOCX, ODT, PPTX or EPUB file, in bytes; they may contain pictures."""
LARGEST_UNPACKED = 64 << 20
"""Largest decompressed size of a file, or of all entries read from an archive, in bytes."""
LARGEST_TEXT = 64 << 20
"""Longest text of a document, in characters."""
LARGEST_PACKED_TEXT = 10 << 20
"""Longest text from a PDF or an archive, in characters."""
LARGEST_DTD = 1 << 20
"""Most bytes of a DTD that are read for its entities."""
LARGEST_RULES = 256 << 10
"""Largest `.gitignore`, in bytes."""
MEMORY = 2 << 30
"""Address space of the worker process, in bytes."""
SECONDS = 60.0
"""Time limit for reading one file, in seconds."""


class UnreadableError(Exception):
    """Unreadable file; the message is a short reason, shown in brackets after the file's name."""


def size(number: int) -> str:
    """Format a number of bytes for messages.

    >>> size(64 << 20), size(2_100_000_000)
    ('64 MiB', '2,003 MiB')
    """
    return f"{number / (1 << 20):,.0f} MiB"
