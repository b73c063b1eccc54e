"""A read-only root and one writable volume are enough: an index has room for temporary files."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

READ_ONLY = """
    import errno, json, os, sys
    from pathlib import Path

    import slimdex.retrieval.lexical.segment_folder as segment_folder
    import slimdex.retrieval.temporary_files as temporary_files
    from slimdex import Collection, SlimdexError, StaticEncoder

    volume, other = sys.argv[1], sys.argv[2]
    temporary_files.MEMORY = segment_folder.MEMORY = Path(other, "none")
    CHANGES = {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink"}
    refused = []

    def refuse(event, args):
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not (writes or event in CHANGES) or isinstance(args[0], int):
            return
        place = os.fsdecode(args[0])
        if not os.path.isabs(place):  # within a folder that is open
            return
        if place != os.devnull and not place.startswith(volume):
            refused.append(place)
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), place)

    sys.addaudithook(refuse)
    os.chdir("/")
    encoder = StaticEncoder(Path(volume, "words.vec"))
    with Collection.create(Path(volume, "i"), encoder) as made:
        made.add([{"id": str(i), "text": f"w{i} w{i + 1}"} for i in range(40)])
        made.sync(Path(volume, "more.csv.gz"))
        found = [hit.id for hit in made.search("w7", limit=2, hybrid="rrf")]
        faults, health = made.verify(), made.health()["rows"]
    try:
        Collection.create(Path(other, "i"), encoder)
        said = "created"
    except (SlimdexError, OSError) as error:
        said = str(error)
    print(json.dumps([found, faults, len(refused) > 0, said, sorted(os.listdir(volume))]))
"""
WORDS = "".join(f"w{i} {i % 7} {i % 5} {i % 3} {i % 11} 1 0 {i % 2} 1\n" for i in range(60))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    made.mkdir()
    (made / "words.vec").write_text(WORDS)
    with gzip.open(made / "more.csv.gz", "wt") as file:
        file.write("id,text\nx,w50 w51\n")
    return made


def test_an_index_needs_no_other_writable_folder(volume: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READ_ONLY), str(volume), str(other)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "HOME": str(other), "SLIMDEX_CACHE": str(other / "cache")},
    )
    assert done.returncode == 0, done.stderr
    found, faults, was_tried, said, left = json.loads(done.stdout)
    assert (found[0], faults, was_tried) == ("7", [], True)
    assert os.strerror(30) in said
    assert left == ["i", "more.csv.gz", "words.vec"]
    assert not [*(volume / "i").glob("slimdex-*")]
    assert [*other.iterdir()] == []


MOUNTED = """
    awk -v kept="$1" '$5 != kept {print $5}' /proc/self/mountinfo | sort -r | while read place; do
        case $place in /proc*|/sys*|/dev) ;; *) mount -o remount,ro,bind "$place" ;; esac
    done
    cd /
    mkdir /tmp/made 2>/dev/null && exit 3
    program="$2 -m slimdex"
    timeout 100 $program build "$1/more.csv.gz" --out "$1/i" --model "$1/words.vec" || exit 4
    echo "w1 w2" | timeout 100 $program add "$1/i" - || exit 5
    timeout 100 $program search "$1/i" w50 --json
"""


def test_a_container_with_a_read_only_root_builds_and_searches(volume: Path) -> None:
    script = 'mount --bind "$1" "$1" || exit 77\n' + textwrap.dedent(MOUNTED)
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(volume), sys.executable],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if done.returncode in (1, 77) and "not permitted" in done.stderr:
        pytest.skip("needs the right to mount")
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert json.loads(last)["queries"][0]["hits"][0]["id"] == "x"
