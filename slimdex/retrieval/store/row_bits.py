"""Sets of rows in bits: row r is bit r mod 8, from the lowest, of byte r // 8."""

from __future__ import annotations

import numpy as np

from slimdex.indexes.arrays import Rows


def bits_of(rows: Rows) -> bytes:
    """Return a bit for each row up to the last of these, which are set; they are in order.

    >>> bits_of(np.array([1, 3, 8]))
    b'\\n\\x01'
    """
    flags = np.zeros(int(rows[-1]) + 1 if len(rows) else 0, dtype=np.bool_)
    flags[rows] = True
    return np.packbits(flags, bitorder="little").tobytes()


def rows_of(bits: bytes | memoryview) -> Rows:
    """Return the rows whose bits are set, in order.

    >>> rows_of(bytes([10, 1])).tolist()
    [1, 3, 8]
    """
    # Only bytes that have set bits are unpacked: few, if few rows are deleted.
    all_bytes = np.frombuffer(bits, dtype=np.uint8)
    positions = np.flatnonzero(all_bytes)
    flags = np.unpackbits(all_bytes[positions], bitorder="little").reshape(-1, 8)
    index, bit = np.nonzero(flags)
    rows: Rows = 8 * positions[index] + bit
    return rows
