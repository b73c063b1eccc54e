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

WORDS = "".join(f"w{i} {i % 7} {i % 5} {i % 3} {i % 11} 1 0 {i % 2} 1\n" for i in range(60))
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


@pytest.mark.slow
def test_a_container_with_a_read_only_root_builds_and_searches(tmp_path: Path) -> None:
    (tmp_path / "words.vec").write_text(WORDS)
    with gzip.open(tmp_path / "more.csv.gz", "wt") as file:
        file.write("id,text\nx,w50 w51\n")
    script = 'mount --bind "$1" "$1" || exit 77\n' + textwrap.dedent(MOUNTED)
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SLIMDEX_CACHE": str(tmp_path / "cache"),
        },
    )
    if done.returncode in (1, 77) and "not permitted" in done.stderr:
        pytest.skip("needs the right to mount")
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert json.loads(last)["queries"][0]["hits"][0]["id"] == "x"
