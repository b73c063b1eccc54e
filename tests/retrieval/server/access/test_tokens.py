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


def test_a_header_gives_the_rights_of_its_token(tmp_path: Path) -> None:
    tokens = Tokens.read(
        written(tmp_path / "t", f"# ours\n\nread {READ}  # the page\nwrite {WRITE}\n")
    )
    rights = {
        f"Bearer {READ}": Right.READ,
        f"bearer  {WRITE} ": Right.WRITE,
        f"Bearer {READ}x": Right.NOTHING,
        f"Bearer {READ[:-1]}": Right.NOTHING,
        f"Basic {READ}": Right.NOTHING,
        READ: Right.NOTHING,
        "Bearer ": Right.NOTHING,
        "": Right.NOTHING,
    }
    assert {header: tokens.right_of(header.encode()) for header in rights} == rights
    assert tokens.right_of(b"Bearer \xff\xfe") is Right.NOTHING


@pytest.mark.parametrize(
    "text",
    ["", "read short", f"\nown {READ}", f"read {READ} {WRITE}", f"read {'ä' * 20}"],
)
def test_wrong_files_are_refused_without_telling_a_token(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected lines of 'read TOKEN'") as error:
        Tokens.read(written(tmp_path / "t", text))
    assert READ not in str(error.value).replace(str(tmp_path), "")


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chmod 600"):
        Tokens.read(written(tmp_path / "t", f"read {READ}", 0o640))
    with pytest.raises(InputError):
        Tokens.read(tmp_path / "none")
