"""Log: records come back as appended, and damage loses only the block that it is in."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import CorruptError, InputError
from slimdex.retrieval.store.log import (
    BLOCK_BYTES,
    ENTRY,
    LONGEST_RECORD,
    MOST_COMPRESSED,
    SEPARATOR,
    Log,
    PackedBlock,
    pack,
)
from slimdex.retrieval.store.state import LogFiles
from tests.chance import CHANCE

Records = list[tuple[bytes, int]]
"""Records and their numbers of rows."""
LENGTHS = st.integers(0, 40) | st.integers(BLOCK_BYTES - 50, BLOCK_BYTES + 50) | st.just(70_000)


def random_bytes(length: int) -> bytes:
    return np.random.default_rng(length).bytes(length).replace(SEPARATOR, b" ")


RECORD = LENGTHS.map(lambda length: random_bytes(length))
RECORDS = st.lists(st.tuples(RECORD, st.integers(1, 4)), max_size=6)


def empty(folder: Path) -> Log:
    return Log(folder, LogFiles(), 0)


def numbered(count: int, first: int = 0) -> Records:
    return [(b'["%d","","text %d"]' % (i, i), 1 + i % 3) for i in range(first, first + count)]


def by_row(records: Records) -> tuple[dict[int, bytes], list[tuple[int, bytes]]]:
    """The record of each row, and each first row with its record."""
    every: list[bytes] = []
    firsts = []
    for record, rows in records:
        firsts.append((len(every), record))
        every += [record] * rows
    return dict(enumerate(every)), firsts


@settings(max_examples=CHANCE.examples(60))
@given(st.lists(RECORDS, max_size=4), st.data())
def test_records_are_read_as_appended(
    tmp_path_factory: pytest.TempPathFactory, parts: list[Records], data: st.DataObject
) -> None:
    log = empty(tmp_path_factory.mktemp("log"))
    records: Records = []
    for part in parts:
        before = log
        log = before.append(list(pack(part)))
        assert before.read(range(before.rows)) == by_row(records)[0]
        records += part
    every, firsts = by_row(records)
    assert log.rows == len(every)
    reopened = Log(log.files[0].path.parent, log.state, log.rows)
    rows = data.draw(st.lists(st.sampled_from(range(log.rows)) if every else st.nothing()))
    assert reopened.read(rows) == {row: every[row] for row in rows}
    assert [*log.scan()] == firsts


def test_a_scan_yields_the_documents_that_begin_in_its_rows(tmp_path: Path) -> None:
    log = empty(tmp_path).append(pack(numbered(5))).append(pack(numbered(3, 5)))
    firsts = by_row(numbered(8))[1]
    for start in range(log.rows + 1):
        assert [*log.scan(start)] == [each for each in firsts if start <= each[0]]
        for stop in range(log.rows + 2):
            expected = [each for each in firsts if start <= each[0] < stop]
            assert [*log.scan(start, stop)] == expected


def test_neighbours_are_compressed_together(tmp_path: Path) -> None:
    records = numbered(3000)
    log = empty(tmp_path).append(pack(records))
    assert log.state.bytes < sum(len(record) for record, _ in records) / 3


def test_leftovers_of_an_interrupted_append_are_overwritten(tmp_path: Path) -> None:
    log = empty(tmp_path).append(pack(numbered(5)))

    def interrupted() -> Iterator[PackedBlock]:
        yield from pack(numbered(300, 5))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log.append(interrupted())
    for file in log.files:
        with file.path.open("ab") as opened:
            opened.write(b"junk" * 100)
    same = Log(tmp_path, log.state, log.rows)
    assert [*same.scan()] == by_row(numbered(5))[1]
    longer = same.append(pack(numbered(5, 5)))
    assert [*longer.scan()] == by_row(numbered(10))[1]
    for file in longer.files:
        assert file.path.stat().st_size == file.nbytes


@pytest.mark.parametrize("which", [0, 1])
def test_cut_and_missing_files_are_reported(tmp_path: Path, which: int) -> None:
    log = empty(tmp_path).append(pack(numbered(20)))
    path = log.files[which].path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptError, match=path.name):
        Log(tmp_path, log.state, log.rows)
    for read in (log.files[which].check, lambda: log.read([0]), lambda: [*log.scan()]):
        with pytest.raises(CorruptError, match=path.name):
            read()
    path.unlink()
    with pytest.raises(CorruptError, match=path.name):
        Log(tmp_path, log.state, log.rows)


def test_open_files_stay_readable_when_deleted(tmp_path: Path) -> None:
    log = empty(tmp_path).append(pack(numbered(2000)))
    for file in log.files:
        file.path.unlink()
    assert log.read(range(log.rows)) == by_row(numbered(2000))[0]
    assert [*log.scan()] == by_row(numbered(2000))[1]


def flips(path: Path) -> Iterator[int]:
    """Flip each bit of a file in turn, and yield the byte in which it is."""
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        byte = bit // 8
        path.write_bytes(whole[:byte] + bytes([whole[byte] ^ 1 << bit % 8]) + whole[byte + 1 :])
        yield byte
    path.write_bytes(whole)


def lost_rows(log: Log, every: dict[int, bytes]) -> list[int]:
    """The rows that can't be read; all others have the right records."""
    lost = []
    for row, record in every.items():
        try:
            assert log.read([row]) == {row: record}
        except CorruptError:
            lost.append(row)
    return lost


def test_a_flipped_bit_loses_no_more_than_a_block(tmp_path: Path) -> None:
    """A block is one append of a few short records, or a single long one."""
    log = empty(tmp_path)
    records: Records = []
    blocks: list[tuple[int, list[int]]] = []  # where each ends, and its rows
    for part in (numbered(3), [(random_bytes(200), 1)], numbered(2, 7)):
        first = log.rows
        log = log.append(pack(part))
        records += part
        blocks.append((log.state.bytes, [*range(first, log.rows)]))
    every, documents = by_row(records)
    firsts = np.array([row for row, _ in documents])

    for byte in flips(log.files[0].path):
        damaged = Log(tmp_path, log.state, log.rows)
        (lost, *_) = (rows for end, rows in blocks if byte < end)
        assert lost_rows(damaged, every) == lost
        readable = [each for each in damaged.readable(firsts) if each[1] is not None]
        assert readable == [each for each in documents if each[0] not in lost]
        with pytest.raises(CorruptError, match=f"row {lost[0]} "):
            [*damaged.scan()]
        assert [*damaged.scan(lost[-1] + 1)] == [each for each in documents if each[0] > lost[-1]]

    for byte in flips(log.files[1].path):
        damaged = Log(tmp_path, log.state, log.rows)
        lost = lost_rows(damaged, every)
        block, place = divmod(byte, ENTRY.size)
        # The first block is at the beginning, whatever the offsets say.
        rows_of_block = blocks[block][1][not block :]
        assert place < ENTRY.size // 2 or lost == rows_of_block
        assert [*damaged.scan()] == documents
    assert lost_rows(log, every) == []


def forged(records: int, row_counts: list[int], content: bytes = b"") -> PackedBlock:
    plain = struct.pack(f"<{len(row_counts)}I", *row_counts) + content
    return PackedBlock(records, 1, zlib.compress(plain, wbits=-zlib.MAX_WBITS))


@pytest.mark.parametrize(
    "block",
    [
        PackedBlock(1, 1, b"not deflate"),
        PackedBlock(1, 1, b""),
        forged(0, [], bytes(1 << 26)),
        forged(2, [1, 1], b"x"),
        forged(2, [1, 1], b"x\ny\nz"),
        forged(1, [0], b"x"),
        forged(1, [1], bytes(MOST_COMPRESSED + 1)),
        forged(1, [1], SEPARATOR * MOST_COMPRESSED),
        PackedBlock(1, 1, forged(1, [1], b"x").data[:-1]),
        forged((1 << 16) - 1, [], bytes(1 << 26)),
    ],
    ids=lambda block: f"{block.records}-{len(block.data)}",
)
def test_forged_blocks_are_refused(tmp_path: Path, block: PackedBlock) -> None:
    """A stranger's checksums can be right, and a few bytes can stand for many."""
    log = empty(tmp_path).append([block, *pack(numbered(3))])
    tracemalloc.start()
    with pytest.raises(CorruptError, match="row 0 "):
        log.read([0])
    with pytest.raises(CorruptError, match="row 0 "):
        [*log.scan()]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MOST_COMPRESSED
    others = [(row + 1, record) for row, record in by_row(numbered(3))[1]]
    assert [*log.scan(1)] == others
    firsts = np.array([0, *(row for row, _ in others)])
    assert [*log.readable(firsts)] == [(0, None), *others]


def test_a_large_record_is_stored_as_it_is(tmp_path: Path) -> None:
    large = b'["a"]' * (MOST_COMPRESSED // 5 + 1)
    log = empty(tmp_path).append(pack([*numbered(1), (large, 2), *numbered(1)]))
    assert log.state.bytes > MOST_COMPRESSED
    assert log.read([0, 1, 2, 3])[2] == large
    assert [first for first, _ in log.scan()] == [0, 1, 3]


def test_a_record_that_is_too_long_is_refused(tmp_path: Path) -> None:
    log = empty(tmp_path).append(pack(numbered(3)))
    too_long = bytes(LONGEST_RECORD + 1)  # zeros, which take no memory until they are read
    with pytest.raises(InputError, match=str(LONGEST_RECORD)):
        log.append(pack([*numbered(300), (too_long, 1)]))
    assert [*Log(tmp_path, log.state, log.rows).scan()] == by_row(numbered(3))[1]
