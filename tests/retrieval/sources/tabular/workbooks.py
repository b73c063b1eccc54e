"""Small workbooks of texts and numbers, in formats that openpyxl can't write."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from struct import pack
from xml.sax.saxutils import escape

Cell = str | float | None
Rows = Sequence[Sequence[Cell]]
NOTHING, END = 0xFFFFFFFF, 0xFFFFFFFE
"""No entry, and no further sector, of a compound file."""
SECTOR = 512
ODS = "urn:oasis:names:tc:opendocument:xmlns:"


def write_ods(path: Path, rows: Rows) -> None:
    """Write an OpenDocument sheet named One."""
    lines = "".join(
        f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows
    )
    content = (
        f'<office:document-content xmlns:office="{ODS}office:1.0" xmlns:table="{ODS}table:1.0" '
        f'xmlns:text="{ODS}text:1.0"><office:body><office:spreadsheet><table:table '
        f'table:name="One">{lines}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>"
    )
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        packed.writestr("META-INF/manifest.xml", "<manifest/>")
        packed.writestr("content.xml", content)


def _ods_cell(cell: Cell) -> str:
    if cell is None:
        return "<table:table-cell/>"
    if isinstance(cell, str):
        kind, text = 'office:value-type="string"', escape(cell)
    else:
        kind, text = f'office:value-type="float" office:value="{cell!r}"', repr(cell)
    return f"<table:table-cell {kind}><text:p>{text}</text:p></table:table-cell>"


def write_xls(path: Path, rows: Rows) -> None:
    """Write a workbook of Excel 97 with a sheet named One."""
    cells = b"".join(
        _xls_cell(pack("<HHH", number, column, 0), cell)
        for number, row in enumerate(rows)
        for column, cell in enumerate(row)
        if cell is not None
    )
    name = "One".encode("utf-16-le")
    start = len(_biff(0x809, bytes(16)) + _biff(0x85, bytes(8) + name) + _biff(0xA))
    book = _biff(0x809, pack("<HHHHII", 0x600, 5, 0, 1997, 0, 6))
    book += _biff(0x85, pack("<IHBB", start, 0, 3, 1) + name) + _biff(0xA)
    book += _biff(0x809, pack("<HHHHII", 0x600, 16, 0, 1997, 0, 6)) + cells + _biff(0xA)
    path.write_bytes(_compound(book.ljust(4096, b"\0")))


def _biff(kind: int, data: bytes = b"") -> bytes:
    return pack("<HH", kind, len(data)) + data


def _xls_cell(place: bytes, cell: str | float) -> bytes:
    if isinstance(cell, str):
        text = cell.encode("utf-16-le")
        return _biff(0x204, place + pack("<HB", len(cell), 1) + text)
    return _biff(0x203, place + pack("<d", cell))


def _compound(stream: bytes) -> bytes:
    """A compound file of a stream "Workbook": the table of sectors, the directory, the stream."""
    count = len(stream) // SECTOR
    table = [0xFFFFFFFD, END, *range(3, count + 2), END]
    table += [NOTHING] * (SECTOR // 4 - len(table))
    head = bytes.fromhex("D0CF11E0A1B11AE1") + bytes(16) + pack("<5H", 0x3E, 3, 0xFFFE, 9, 6)
    head += bytes(6) + pack("<9I", 0, 1, 1, 0, 4096, END, 0, END, 0)
    head += pack("<109I", 0, *[NOTHING] * 108)
    entries = _entry("Root Entry", 5, 1, END, 0) + _entry("Workbook", 2, NOTHING, 2, len(stream))
    return head + pack("<128I", *table) + entries.ljust(SECTOR, b"\0") + stream


def _entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
    named = f"{name}\0".encode("utf-16-le")
    head = named.ljust(64, b"\0") + pack("<HBB3I", len(named), kind, 1, NOTHING, NOTHING, child)
    return head + bytes(36) + pack("<IQ", start, size)
