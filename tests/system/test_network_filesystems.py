"""Network file systems: read there, changed only if the user vouches for locks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from slimdex.command_line import app
from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cli.errors import in_options
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.ingest.repairing import repair
from slimdex.retrieval.sources.source import Sources
from slimdex.system.locks import network_kind
from tests.building import build
from tests.encoders import WordEncoder

MOUNTS = r"""
proc /proc proc rw 0 0
/dev/sda1 / ext4 rw,relatime 0 0
server:/export /mnt nfs4 rw,vers=4.2 0 0
/dev/sdb1 /mnt/local xfs rw 0 0
//nas/share /mnt/two\040words cifs rw 0 0
server:/export/notes /srv/bound nfs rw 0 0
/dev/sdc1 /srv/over ext4 rw 0 0
hostshare /srv/over 9p rw,trans=virtio 0 0
user@host:/home /remote fuse.sshfs rw 0 0
/dev/sdd1 /usb fuseblk rw 0 0
gocryptfs /secret fuse.gocryptfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Made-up list of mounts, in the file that psutil reads."""
    file = tmp_path / "proc" / "self" / "mounts"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    network_kind.cache_clear()
    yield file
    network_kind.cache_clear()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/elsewhere/x.index", None),
        ("/mnt/x.index", "nfs4"),
        ("/mntx/x.index", None),
        ("/mnt/local/x.index", None),
        ("/mnt/two words/x.index", "cifs"),
        ("/mnt/two/x.index", "nfs4"),
        ("/srv/bound", "nfs"),
        ("/srv/over/deep/x.index", "9p"),
        ("/srv/over/../x.index", None),
        ("/remote/x.index", "fuse.sshfs"),
        ("/usb/x.index", None),
        ("/secret/x.index", None),
    ],
)
def test_the_last_mount_of_the_longest_place_counts(
    mounts: Path, path: str, kind: str | None
) -> None:
    mounts.write_text(MOUNTS)
    assert network_kind(Path(path)) == kind


def test_a_link_is_followed(mounts: Path, tmp_path: Path) -> None:
    mounts.write_text(f"server:/export {tmp_path}/mnt nfs rw 0 0\n")
    (tmp_path / "mnt").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "mnt")
    assert network_kind(tmp_path / "here" / "x.index") == "nfs"


def test_mounts_that_can_not_be_read(mounts: Path) -> None:
    assert network_kind(Path("/mnt/x.index")) is None


def test_changes_on_network_file_systems_are_refused(mounts: Path, tmp_path: Path) -> None:
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\n")
    path, one = tmp_path / "mnt" / "x.index", [{"id": "1", "text": "the cat sat", "n": 1}]
    (tmp_path / "mnt").mkdir()
    with Collection.create(path, WordEncoder()) as collection:
        collection.add(one)
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/export {tmp_path}/mnt nfs4 rw 0 0\n")
    network_kind.cache_clear()
    refused = pytest.raises(InputError, match=r"x.index: on a network file system \(nfs4\); exp")

    class Unused(WordEncoder):
        def encode(self, texts: Sequence[str]) -> Matrix:
            raise AssertionError("nothing is encoded in vain")

    with Collection.open(path, Unused()) as collection:
        for change in (
            lambda: collection.add({"id": "2", "text": "a dog slept"}),
            lambda: collection.delete("1"),
            collection.compact,
            lambda: collection.reduce(Settings(kind="flat")),
        ):
            with refused:
                change()
    with refused:
        repair(path)
    with Collection.open(path, WordEncoder()) as collection:
        assert collection.search("a cat", where="n = 1")[0].id == "1"
        assert collection.get("1").text == "the cat sat"
        assert collection.verify() == []

    with Collection.open(path, WordEncoder(), shared_filesystem=True) as collection:
        collection.add({"id": "2", "text": "a dog slept"})
        assert collection.delete("1") == 1
    assert repair(path, shared_filesystem=True) == []


def test_an_index_is_not_created_there(mounts: Path, tmp_path: Path) -> None:
    mounts.write_text(f"server:/export {tmp_path} nfs rw 0 0\n")
    path, lines = tmp_path / "x.index", tmp_path / "x.jsonl"
    lines.write_text('{"id": "1", "text": "the cat sat"}\n')
    with pytest.raises(InputError, match="network file system"):
        Collection.create(path, WordEncoder())
    with pytest.raises(InputError, match="network file system"):
        build(path, Sources.open(str(lines)), WordEncoder, Settings())
    assert not path.exists()
    made, _ = build(path, Sources.open(str(lines)), WordEncoder, Settings(), shared_filesystem=True)
    with made:
        assert len(made) == 1


COMMANDS: list[tuple[str, ...]] = [
    ("add", "x.index", "x.jsonl"),
    ("compact", "x.index"),
    ("delete", "x.index", "1"),
    ("reduce", "x.index", "--kind", "flat"),
    ("repair", "x.index"),
    ("sync", "x.index", "x.jsonl"),
    ("reduce", "x.index", "--lexical", "off"),
    ("undo", "x.index"),
    ("tune", "x.index", "--apply"),
    ("build", "x.jsonl", "--out", "new.index"),
]


@pytest.mark.slow
def test_commands_that_change_an_index_have_an_option(
    mounts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\n")
    lines = [f'{{"id": "{i}", "text": "the cat sat {i}", "vector": [{i}, 1]}}' for i in range(40)]
    Path("x.jsonl").write_text("\n".join(lines))
    built = CliRunner().invoke(app, ["build", "x.jsonl", "--out", "x.index"])
    assert built.exit_code == 0, built.output
    mounts.write_text(f"//nas/share {tmp_path} cifs rw 0 0\n")
    network_kind.cache_clear()
    for words in COMMANDS:
        with pytest.raises(InputError, match="network file system") as raised:
            CliRunner().invoke(app, words, catch_exceptions=False)
        assert "or --shared-filesystem if locks work between all" in in_options(str(raised.value))
        done = CliRunner().invoke(app, [*words, "--shared-filesystem"])
        if words[0] == "tune":  # refuses so few documents, once it may change the index
            assert "dimensions; expected 1.5 or more" in str(done.exception)
        else:
            assert done.exit_code == 0, done.output + repr(done.exception)


def test_servers_have_the_option(mounts: Path, tmp_path: Path) -> None:
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\n")
    path, nothing = tmp_path / "x.index", tmp_path / "none.index"
    Collection.create(path, WordEncoder()).close()
    mounts.write_text(f"//nas/share {tmp_path} cifs rw 0 0\n")
    network_kind.cache_clear()
    with pytest.raises(InputError, match=r"x\.index: on a network file system"):
        CliRunner().invoke(app, ["mcp", str(path), "--write"], catch_exceptions=False)
    for words in (["mcp", str(path), str(nothing), "--write"], ["serve", str(path), str(nothing)]):
        with pytest.raises(InputError, match=r"none\.index"):
            CliRunner().invoke(app, [*words, "--shared-filesystem"], catch_exceptions=False)
