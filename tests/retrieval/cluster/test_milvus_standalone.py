"""The standalone server of the PyPI package milvus 2.3.5, in a network namespace of its own.

It has neither missing values nor float16, nor a second vector, nor BM25; what is translated for it
has to hold on it. The package is installed without its dependencies into a folder of the test's,
through pip; where that or a namespace can't be had, the test is skipped and says why.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slimdex.retrieval.collection import Collection
from tests.chance import sweep
from tests.encoders import ReadingEncoder

from .standalone_trial import CONDITIONS, KINDS

PACKAGE = "milvus==2.3.5"
NAMESPACE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
SECONDS = 900
TRIAL = Path(__file__).with_name("standalone_trial.py")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package."""
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "true"]).returncode:
        pytest.skip("no network namespace of its own: unshare is missing, or not allowed")
    folder = tmp_path_factory.mktemp("milvus-2.3.5")
    words = ["install", "-q", "--no-deps", "--target", str(folder), PACKAGE]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip can't install {PACKAGE}: {done.stderr.strip().splitlines()[-1]}")
    return folder


@sweep
def test_pushed_searched_verified_and_killed(package: Path, index: Path, tmp_path: Path) -> None:
    with Collection.open(index, ReadingEncoder()) as collection:
        asked = ["word8 word3 title", "word100"]
        hits = collection.search_many(asked, 7, "n < 90", candidates=1000, hybrid="off")
        expected = [[hit.id for hit in own] for own in hits]
    words = ["ip link set lo up && exec", sys.executable, str(TRIAL)]
    words += [str(package), str(index), str(tmp_path / "server"), str(tmp_path / "said.json")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [*NAMESPACE, "sh", "-c", " ".join(words)], check=True, timeout=SECONDS, env=environment
    )
    said: dict[str, Any] = json.loads((tmp_path / "said.json").read_text())
    assert said["version"].startswith("v2.3.5")
    assert said["conditions"] >= 0.5 * CONDITIONS
    assert said["wrong"] == []
    assert said["answers"] == expected
    assert said["kinds"] == {kind: [] for kind in KINDS}
    assert said["there"].startswith("rescore='there': Milvus v2.3.5")
    assert said["words"].startswith("hybrid=0.1: ")
    for line in said["gone"]:
        assert line.startswith("milvus http://127.0.0.1:")
        assert "\n" not in line
    assert said["mended"] == []
