"""Text of pictures and scanned pages, recognised by the program Tesseract, if installed.

It runs as a process of its own, with the languages that it has installed.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from itertools import groupby

from ..limits import LARGEST_PACKED_TEXT, SECONDS, UnreadableError
from ..outline import Extract, Outline

INSTALL = "Tesseract reads them: apt-get install tesseract-ocr, or as your system does"
LEAST_SURE = 30.0
"""Confidence, of 100, of a word; less is usually no text."""
NO_LANGUAGES = ("osd", "equ", "snum")
"""Trained data of scripts, equations and numbers."""
PATIENCE = SECONDS * 0.9
"""Seconds for a page: less than the worker process has, which would leave this process behind."""


def is_installed() -> bool:
    """Return whether the program is on the search path."""
    return shutil.which("tesseract") is not None


def require() -> None:
    """Raise `UnreadableError` unless the program is installed."""
    if not is_installed():
        raise UnreadableError(INSTALL)


def read(data: bytes) -> Extract:
    """Read a picture; the pages of a TIFF are parts.

    Raises `UnreadableError` if Tesseract can't read it.
    """
    outline = Outline(LARGEST_PACKED_TEXT)
    pages = recognised(data)
    for number, text in enumerate(pages, start=1):
        if len(pages) > 1:
            outline.part(f"page={number}", number)
        outline.add(text)
    return Extract("", outline.text, outline.parts)


def recognised(picture: bytes, *more: str) -> list[str]:
    """Text of each page of a picture in any format that Tesseract reads.

    Parameters
    ----------
    more : further options of the program.

    Raises `UnreadableError` if it can't be read, or takes too long.
    """
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    try:
        command = ["tesseract", "stdin", "stdout", *_options(), *more, "tsv"]
        done = subprocess.run(
            command, input=picture, capture_output=True, timeout=PATIENCE, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise UnreadableError(f"takes Tesseract over {PATIENCE:.0f} s") from error
    except OSError as error:
        raise UnreadableError(f"Tesseract does not start: {error.strerror}") from error
    if done.returncode != 0:
        raise UnreadableError("no picture that Tesseract reads")
    return _pages(done.stdout.decode("utf-8", "replace"))


@cache
def _options() -> Sequence[str]:
    """Options for all installed languages, and for pages of any direction if that is trained."""
    listed = subprocess.run(["tesseract", "--list-langs"], capture_output=True, text=True)
    found = listed.stdout.splitlines()[1:]
    languages = [name for name in found if name not in NO_LANGUAGES and "/" not in name]
    languages.sort(key=lambda name: (name != "eng", name))
    return ["-l", "+".join(languages), "--psm", "1" if "osd" in found else "3"]


def _pages(table: str) -> list[str]:
    r"""Text of each page of Tesseract's table of words, by paragraphs and lines.

    >>> head = "level\tpage_num\tblock_num\tpar_num\tline_num\tconf\ttext\n"
    >>> _pages(head + "5\t1\t1\t1\t1\t96\tHot\n5\t1\t1\t1\t1\t9\t~~\n5\t1\t1\t2\t1\t90\ttea.\n")
    ['Hot\n\ntea.']
    """
    rows = csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE)
    pages = dict[str, list[str]]()
    for (page, *_), paragraph in groupby(
        rows, lambda row: (row["page_num"], row["block_num"], row["par_num"])
    ):
        lines = []
        for _, line in groupby(paragraph, lambda row: row["line_num"]):
            sure = (row for row in line if float(row["conf"] or -1) >= LEAST_SURE)
            lines.append(" ".join(word for row in sure if (word := (row["text"] or "").strip())))
        pages.setdefault(page, []).append("\n".join(filter(None, lines)))
    return ["\n\n".join(filter(None, paragraphs)) for paragraphs in pages.values()]
