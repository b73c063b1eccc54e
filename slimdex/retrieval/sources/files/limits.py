"""Limits of files, and the error for unreadable ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LARGEST_FILE = 64 << 20
"""Largest text file or message of a mailbox, in bytes."""
LARGEST_BOOK = 256 << 20
"""Largest PDF, DOCX, ODT, PPTX or EPUB file, in bytes; they may contain pictures."""
LARGEST_UNPACKED = 64 << 20
"""Largest decompressed size of a file, or of what is read from an archive, in bytes."""
LARGEST_TEXT = 64 << 20
"""Longest text of a document, in characters."""
LARGEST_PACKED_TEXT = 10 << 20
"""Longest text from a PDF or an archive, in characters."""
LARGEST_RULES = 256 << 10
"""Largest `.gitignore`, in bytes."""
MEMORY = 2 << 30
"""Address space of the worker process, in bytes."""
PDF_MEMORY = 512 << 20
"""Address space that reading a PDF may take besides the file, in bytes: a few hundred bytes can
describe any number of objects."""
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


def too_large(number: int, most: int) -> UnreadableError:
    """Create the error for a file of this many bytes."""
    return UnreadableError(f"{size(number)}; expected at most {size(most)}")


@contextmanager
def pdf_memory() -> Iterator[None]:
    """Let the worker process grow by at most `PDF_MEMORY` within the block.

    It counts on Linux alone, and only in the worker process, which is known by its limit: others
    run more than one reader.
    """
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0])  # in pages
    except OSError:  # not Linux
        yield
        return
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] != MEMORY:
        yield
        return
    limit = min(used * resource.getpagesize() + PDF_MEMORY, MEMORY)
    resource.setrlimit(resource.RLIMIT_AS, (limit, MEMORY))
    try:
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except MemoryError as error:
        raise UnreadableError(f"needs over {size(PDF_MEMORY)} of memory") from error
