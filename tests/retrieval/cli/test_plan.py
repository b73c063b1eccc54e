"""`slimdex plan`: files of indexes that are built, cases by hand, and the command."""

from __future__ import annotations

import json
import math
import random
import re
import string
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.command_line import app
from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cli.plan import Workload
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder

ROOT = Path(__file__).parents[3]
ASKED = ["plan", "--documents", "1e9", "--dim", "768", "--tokens-per-s", "1e5"]
HEADER = 1024
"""Bytes of a file that no formula counts."""
COUNT, TOKENS, PLACE = 1500, 250, 30
LETTERS = string.ascii_letters + string.digits + "  "


def made(folder: Path, workload: Workload) -> tuple[dict[str, int], int]:
    """What the names of an index's files begin with -> their bytes; and its bytes in memory."""
    rng, letters = np.random.default_rng(0), random.Random(0)
    vectors = rng.standard_normal((COUNT, workload.dim)).astype(np.float32)
    texts = ["".join(letters.choices(LETTERS, k=4 * TOKENS)) for _ in range(COUNT)]
    documents = [
        Document(
            f"{1000 + i}", text, metadata={"place": "".join(letters.choices(LETTERS, k=PLACE))}
        )
        for i, text in enumerate(texts)
    ]
    settings = Settings(kind=workload.kind, k=workload.k)
    encoder = GivenEncoder(workload.dim)
    with Collection.create(
        folder, encoder, settings, vector_dtype=workload.vector_dtype, lexical=False
    ) as collection:
        collection.add(documents, vectors=vectors)
        info, memory = collection.info(), collection.index.snapshot.index.nbytes
    assert info["search"].get("lists", 0) == workload.lists
    assert info["settings"]["kind"] == workload.resolved_kind
    return {re.split("[-.]", name)[0]: size for name, size in info["files"].items()}, memory


@pytest.mark.parametrize(
    "workload",
    [
        Workload(COUNT, 48, TOKENS, PLACE + 3, vector_dtype="int8"),
        Workload(COUNT, 40, TOKENS, PLACE + 3, kind="ivf-pq"),
        Workload(COUNT, 36, TOKENS, PLACE + 3, kind="pq", vector_dtype="int4"),
    ],
    ids=["pq, int8", "ivf-pq, fp16", "pq, int4"],
)
def test_files_are_as_large_as_the_formulas_say(workload: Workload, tmp_path: Path) -> None:
    files, memory = made(tmp_path / "made.index", workload)
    stated = workload.files
    assert files.keys() - {"slimdex", "before", "writer"} == stated.keys() - {"words"}
    for name in ("vectors", "norms", "offsets"):
        assert files[name] == stated[name]
    for name in ("reducer", "rescorer", "moments"):
        assert 0 < files[name] - stated[name] < HEADER
    # The last block of a list may have 1 row of 32 or all: 16 more or fewer than the half.
    padding = 16 * max(workload.lists, 1) * math.ceil(workload.reduced_dim / 8)
    assert files["codes"] == pytest.approx(stated["codes"], abs=padding + HEADER)
    assert files["codes"] == pytest.approx(stated["codes"], rel=0.1)
    assert memory == pytest.approx(workload.memory, abs=padding + HEADER)
    for name in ("documents", "segment"):  # of random letters
        assert 0.75 * stated[name] < files[name] < stated[name]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"documents": 0}, r"--documents 0; expected 1,000 to 1e\+13"),
        ({"dim": 8}, "--dim 8; expected 16 to 65,536"),
        ({"k": 400}, "--k 400; expected 4 to 384"),
        ({"vector_dtype": "fp8"}, "--vector-dtype 'fp8'; expected fp16, int8, int4"),
        ({"columns": -1}, "--columns -1; expected 0 to"),
    ],
)
def test_no_workload(words: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Workload(**{"documents": 10_000, "dim": 384, **words})  # type: ignore[arg-type]


def test_bytes_and_hours_by_hand() -> None:
    planned = Workload(10**9, 768, tokens=36, tokens_per_s=1e5)
    lists = 244_141
    held = 10**9 * (48 + 8) + lists * (384 * 4 + 16 + 16 * 48) + 64 * 384
    assert (planned.lists, planned.memory) == (lists, held + 4 * 768 * (385 + 1))
    assert planned.files["vectors"] == 10**9 * 768 * 2
    assert planned.files["norms"] == 10**9 * 4
    assert planned.disk == sum(planned.files.values())
    assert planned.hours == 100
    assert Workload(10**6).hours is None


def test_one_json_object() -> None:
    done = CliRunner().invoke(app, [*ASKED, "--tokens", "100", "--kind", "auto", "--json"])
    report = json.loads(done.stdout)
    assert (report["documents"], report["kind"], report["k"]) == (10**9, "ivf-pq", 384)
    assert report["memory_bytes"] == pytest.approx(56.6e9, rel=0.01)
    assert report["disk_bytes"] == sum(report["files"].values())
    assert report["files"]["vectors"] == 10**9 * 2 * 768
    assert report["encoding_hours"] == 10**6 / 3600


def test_words_are_in_the_plan_unless_left_out() -> None:
    def planned(*words: str) -> tuple[dict[str, float], str]:
        said = CliRunner().invoke(app, [*ASKED, *words]).stdout
        report = json.loads(CliRunner().invoke(app, [*ASKED, *words, "--json"]).stdout)
        files: dict[str, float] = report["files"]
        assert report["disk_bytes"] == sum(files.values())
        return files, said

    files, said = planned()
    without, said_without = planned("--no-lexical")
    assert files["words"] > 10**9
    assert without == {name: size for name, size in files.items() if name != "words"}
    assert "words (the lexical index) as of English texts" in said
    assert "without words (the lexical index)" in said_without


def test_a_plain_install_is_enough() -> None:
    """Nothing of the extra `bench` is imported, nor anything that takes seconds."""
    heavy = ["scipy", "psutil", "threadpoolctl", "torch", "faiss", "duckdb"]
    heavy += ["transformers", "openvino"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({heavy})); "
        f"sys.argv = {['slimdex', *ASKED, '--json']}; "
        "from slimdex.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"] == 10**9
