"""Log: a record of each document, by row, in an append-only file that is mapped.

Neighbouring records are compressed together, in blocks of 2.75 KiB; a longer record has a block of
its own. A block depends on no other. It consists of

- a header: CRC-32 of the rest of the block, length of the compressed bytes, first row, and number
  of records;
- by raw deflate: the number of rows of each record, and the records, joined by line breaks.

The second file, the offsets, has two numbers for each block: its first row, and where it starts.

Damage in a block loses the records of this block, and no others. Damage in the offsets loses no
record: documents can't be read by their rows, but a scan of the log finds them.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from struct import Struct

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Rows
from slimdex.indexes.vectors.vector_file import check_length
from slimdex.system.append_only import AppendOnlyFile, appending

from .state import LogFiles

CRC_BYTES = 4
HEADER = Struct("<IIQH")
"""CRC-32 of the rest of the block, length of the compressed bytes, first row, number of records."""
COUNT_BYTES = 4
"""Bytes of a record's number of rows."""
SEPARATOR = b"\n"
"""Between records; they have none, being JSON without spaces."""
ENTRY = Struct("=qq")
"""Of a block in the offsets: its first row, and where it starts."""
BLOCK_BYTES = 11 << 8
"""Largest decompressed size of a block, unless it has a single record: with 8 KiB, descriptions of
packages take 18% fewer bytes, but reading ten records takes twice as long."""
MOST_COMPRESSED = 1 << 24
"""Largest decompressed size of a block that is smaller when compressed, so that a forged one can't
exhaust the memory. Larger records are stored by deflate without compression."""
LONGEST_RECORD = 1 << 31
RAW = -zlib.MAX_WBITS
"""Deflate without header and checksum."""
DAMAGE = (ValueError, OverflowError, struct.error, zlib.error)
"""Errors of a block that is damaged or forged."""

READ_AHEAD = 1 << 17
"""Bytes that are requested from the disk while blocks are read one after the other."""


@dataclass(frozen=True)
class PackedBlock:
    """Records compressed together, for `Log.append`.

    Attributes
    ----------
    records : number of records.
    rows : number of rows of all records.
    data : compressed bytes.
    """

    records: int
    rows: int
    data: bytes


def pack(records: Iterable[tuple[bytes, int]]) -> Iterator[PackedBlock]:
    """Compress records, each given with its number of rows, in blocks.

    Raises `InputError` if a record is too long.
    """
    block: list[tuple[bytes, int]] = []
    nbytes = 0
    for record, rows in records:
        length = len(record)
        if length > LONGEST_RECORD:
            raise InputError(f"a document of {length} bytes; expected at most {LONGEST_RECORD}")
        if block and nbytes + COUNT_BYTES + length > BLOCK_BYTES:
            yield _pack_block(block)
            block = []
            nbytes = 0
        block.append((record, rows))
        nbytes += COUNT_BYTES + length
    if block:
        yield _pack_block(block)


def _pack_block(block: list[tuple[bytes, int]]) -> PackedBlock:
    row_counts = [rows for _, rows in block]
    lines = SEPARATOR.join(record for record, _ in block)
    plain = struct.pack(f"<{len(block)}I", *row_counts) + lines
    level = zlib.Z_DEFAULT_COMPRESSION if len(plain) <= MOST_COMPRESSED else zlib.Z_NO_COMPRESSION
    data = zlib.compress(plain, level, wbits=RAW)
    return PackedBlock(records=len(block), rows=sum(row_counts), data=data)


@dataclass(frozen=True)
class _Block:
    """Records of consecutive documents.

    Attributes
    ----------
    rows : rows of the documents.
    bounds : rows where documents begin, and where the last one ends.
    records : those of the documents.
    stop : where the block ends in the log.
    """

    rows: range
    bounds: Sequence[int]
    records: Sequence[bytes]
    stop: int

    @classmethod
    def read(cls, log: mmap.mmap | bytes, start: int) -> _Block:
        """Read the block that starts here; raises one of `DAMAGE` if it is damaged or forged."""
        crc, length, first, count = HEADER.unpack_from(log, start)
        stop = start + HEADER.size + length
        checked = log[start + CRC_BYTES : stop]
        if zlib.crc32(checked) != crc:
            raise ValueError("another checksum")

        # Decompress it; one byte more, since the stream may end after the last byte.
        stream = zlib.decompressobj(wbits=RAW)
        most = max(MOST_COMPRESSED, length) + 1
        plain = stream.decompress(checked[HEADER.size - CRC_BYTES :], most)
        bounds = [*accumulate(struct.unpack_from(f"<{count}I", plain), initial=first)]
        records = plain[COUNT_BYTES * count :].split(SEPARATOR, count)
        if not stream.eof or len(records) != count or bounds[-1] == first:
            raise ValueError(f"{len(plain)} bytes in {length}; expected {count} records")
        return cls(range(first, bounds[-1]), bounds, records, stop)


NO_BLOCK = _Block(range(0), bounds=(0,), records=(), stop=0)
"""Before the first one."""


def log_files(folder: Path, files: LogFiles) -> tuple[AppendOnlyFile, AppendOnlyFile]:
    """The files of records and of offsets, with their committed sizes."""
    return (
        AppendOnlyFile(folder / files.documents, files.bytes),
        AppendOnlyFile(folder / files.offsets, files.blocks * ENTRY.size),
    )


class Log:
    """Records of documents by row, in an append-only file that is mapped, and the place of each.

    Bytes beyond the committed size, left by an interrupted append, are ignored and overwritten.

    The maps stay readable when the files are removed. Raises `CorruptError` if a file is missing or
    too short.

    >>> import tempfile
    >>> empty = Log(Path(tempfile.mkdtemp()), LogFiles("documents", "offsets"), 0)
    >>> log = empty.append(pack([(b'["7","Rain"]', 1), (b'["8","Snow"]', 3)]))
    >>> log.rows, log.read([0, 2])
    (4, {0: b'["7","Rain"]', 2: b'["8","Snow"]'})
    >>> [*log.scan()]
    [(0, b'["7","Rain"]'), (1, b'["8","Snow"]')]
    """

    def __init__(self, folder: Path, files: LogFiles, rows: int) -> None:
        self.state = files
        self.rows = rows
        self._folder = folder
        self.files = log_files(folder, files)
        self._log, self._offsets = self.files
        self._maps = [file.map() for file in self.files]
        self._entries = memoryview(self._maps[1]).cast("q")  # the numbers of all entries
        log = self._maps[0]
        if isinstance(log, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
            log.madvise(mmap.MADV_RANDOM)  # hits are scattered: avoid read-ahead of 128 KiB

    def append(self, blocks: Iterable[PackedBlock]) -> Log:
        """Append records durably; return the longer log, leaving this one unchanged.

        `pack` makes the blocks, beforehand or as they are written.
        """
        end = self.state.bytes
        rows = self.rows
        count = self.state.blocks
        with (
            appending(self._log.path, self._log.nbytes) as log,
            appending(self._offsets.path, self._offsets.nbytes) as offsets,
        ):
            for block in blocks:
                header = HEADER.pack(0, len(block.data), rows, block.records)
                checked = header[CRC_BYTES:] + block.data
                stored = zlib.crc32(checked).to_bytes(CRC_BYTES, "little") + checked
                log.write(stored)
                offsets.write(ENTRY.pack(rows, end))
                end += len(stored)
                rows += block.rows
                count += 1
        return Log(self._folder, replace(self.state, bytes=end, blocks=count), rows)

    def read(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Read records of documents by any of their rows.

        Raises `CorruptError` if one is damaged.
        """
        records = dict[int, bytes]()
        block = NO_BLOCK
        for row in rows:
            block = self._block(row, block)
            records[row] = block.records[bisect_right(block.bounds, row) - 1]
        return records

    def scan(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield (first row, record) of each document that begins in rows [start, stop), in order.

        Raises `CorruptError` at the first damaged block.
        """
        stop = self.rows if stop is None else min(stop, self.rows)
        row = start
        block = NO_BLOCK
        while row < stop:
            block = self._block(row, block)
            for first, record in zip(block.bounds[:-1], block.records, strict=True):
                if start <= first < stop:
                    yield first, record
            row = block.rows.stop

    def readable(self, documents: Rows) -> Iterator[tuple[int, bytes | None]]:
        """Yield (first row, record) of all documents; None if it can't be read.

        `documents` are their first rows, in order.
        """
        block = NO_BLOCK
        for row in documents.tolist():
            record = None
            with suppress(CorruptError):
                block = self._block(row, block)
                if row in block.bounds:
                    record = block.records[block.bounds.index(row)]
            yield row, record

    def _block(self, row: int, last: _Block) -> _Block:
        """Read the block of a row's document, unless it is the `last` one that was read.

        That of the following row starts where the last one stops, also if offsets are damaged.
        """
        if row in last.rows:
            return last

        # Reading a file that was cut would be fatal.
        for file, mapped in zip(self.files, self._maps, strict=True):
            check_length(mapped, file.path)

        log = self._maps[0]
        start = last.stop
        is_next = row == last.rows.stop
        if not is_next:
            start = self._entries[1::2][bisect_right(self._entries[::2], row) - 1]
        try:
            if is_next and isinstance(log, mmap.mmap) and hasattr(mmap, "MADV_WILLNEED"):
                page = start - start % mmap.PAGESIZE
                log.madvise(mmap.MADV_WILLNEED, page, READ_AHEAD)  # a scan goes on
            block = _Block.read(log, start)
            if row not in block.rows:
                raise ValueError(f"the block of rows {block.rows.start} to {block.rows.stop - 1}")
        except DAMAGE as error:
            raise CorruptError(
                f"{self._log.path}: row {row} is damaged, at byte {start} ({error}); see "
                f"`slimdex repair {self._folder}`"
            ) from error
        return block
