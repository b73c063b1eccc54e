"""Tokens come from a file of their owner's; comparing them tells nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.server.access.tokens import Right, Tokens

READ, WRITE = "r" * 16, "w" * 20


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_what_each_token_allows(tmp_path: Path) -> None:
    tokens = Tokens.read(
        written(tmp_path / "t", f"# ours\n\nread {READ}  # the page\nwrite {WRITE}\n")
    )
    said = {
        f"Bearer {READ}": Right.READ,
        f"bearer  {WRITE} ": Right.WRITE,
        f"Bearer {READ}x": Right.NOTHING,
        f"Bearer {READ[:-1]}": Right.NOTHING,
        f"Basic {READ}": Right.NOTHING,
        READ: Right.NOTHING,
        "Bearer ": Right.NOTHING,
        "": Right.NOTHING,
    }
    assert {header: tokens.right_of(header.encode()) for header in said} == said
    assert tokens.right_of(b"Bearer \xff\xfe") is Right.NOTHING


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no tokens; expected lines of 'read TOKEN'"),
        ("read short", "line 1: expected lines"),
        (f"\nown {READ}", "line 2: expected lines"),
        (f"read {READ} {WRITE}", "line 1: expected lines"),
        (f"read {'ä' * 20}", "line 1: expected lines"),
    ],
)
def test_files_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as error:
        Tokens.read(written(tmp_path / "t", text))
    assert READ not in str(error.value).replace(str(tmp_path), "")


def test_a_file_that_others_can_read(tmp_path: Path) -> None:
    path = written(tmp_path / "t", f"read {READ}", 0o640)
    with pytest.raises(InputError, match=r"mode 640\); expected mode 600: chmod 600"):
        Tokens.read(path)
    with pytest.raises(InputError, match="can't be read"):
        Tokens.read(tmp_path / "none")
