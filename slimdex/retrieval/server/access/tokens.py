"""Tokens: rights of callers, from a file that only its owner can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hmac import compare_digest
from pathlib import Path

from slimdex.indexes.errors import InputError

SHORTEST = 16
"""Fewest characters of a token, so that it can't be guessed."""
EXPECTED = f"lines of 'read TOKEN' or 'write TOKEN', each token of {SHORTEST} characters or more"


class Right(IntEnum):
    """Rights of a caller; each includes those before it."""

    NOTHING = 0
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Tokens:
    """Tokens and their rights."""

    rights: Mapping[bytes, Right]

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """Read a file with lines "read TOKEN" or "write TOKEN"; # begins a comment.

        Raises
        ------
        InputError
            If it can't be read, other users than its owner can read it, or a line is invalid.
            Messages never contain a token.
        """
        try:
            mode, lines = path.stat().st_mode, path.read_text().splitlines()
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: can't be read ({error}); expected {EXPECTED}") from error
        if mode & 0o077:
            raise InputError(
                f"{path}: others can read it (mode {mode & 0o777:o}); expected mode 600: "
                f"chmod 600 {path}"
            )
        rights = dict[bytes, Right]()
        for number, line in enumerate(lines, start=1):
            words = line.split("#")[0].split()
            if words:
                token = _token(path, number, words)
                rights[token] = Right[words[0].upper()]
        if not rights:
            raise InputError(f"{path}: no tokens; expected {EXPECTED}")
        return cls(rights)

    def right_of(self, authorization: bytes) -> Right:
        """Rights granted by a header ``Authorization: Bearer TOKEN``.

        Tokens are compared in constant time.
        """
        scheme, _, given = authorization.partition(b" ")
        found, given = Right.NOTHING, given.strip()
        for token, right in self.rights.items():
            if compare_digest(token, given):
                found = right
        return found if scheme.lower() == b"bearer" else Right.NOTHING


def _token(path: Path, number: int, words: Sequence[str]) -> bytes:
    good = len(words) == 2 and words[0] in ("read", "write")
    if not good or len(words[1]) < SHORTEST or not words[1].isascii():
        raise InputError(f"{path}, line {number}: expected {EXPECTED}")
    return words[1].encode()
