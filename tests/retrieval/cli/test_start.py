"""What a command imports when it starts: only what it runs, since imports are most of its time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.transformer import TransformerEncoder

PROGRAM = """
import json, sys
from slimdex.__main__ import main
sys.argv = ["slimdex", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""
HELP = {"click"}
READ = HELP | {"faiss", "numpy", "packaging", "rich", "safetensors"}
INFO = READ | {"_duckdb", "portalocker"}
SEARCH = READ | {"tantivy", "threadpoolctl", "tokenizers"}
ENVIRONMENT = ("__", "_distutils", "_virtual", "sitecustomize", "usercustomize", "swig_runtime")
FOLDERS = {
    *("indexes.codes", "indexes.reducers", "indexes.search"),
    *("indexes.vectors", "retrieval.store", "retrieval.cli", "retrieval.encoders"),
    *("retrieval.lexical", "retrieval.search"),
}
"""Folders of slimdex that a search imports."""


@pytest.fixture(scope="module")
def index(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start") / "i"
    with Collection.create(folder, TransformerEncoder(str(tiny_bert))) as collection:
        collection.add([{"id": str(i), "text": f"the cat {i}"} for i in range(5)])
    return folder


def modules(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def libraries(found: set[str]) -> set[str]:
    """Packages beside Python's own, slimdex, and those of the environment's set-up."""
    tops = {name.partition(".")[0] for name in found} - sys.stdlib_module_names
    return {name for name in tops if name != "slimdex" and not name.startswith(ENVIRONMENT)}


def folders(found: set[str]) -> set[str]:
    """Folders of slimdex's modules."""
    own = [name.split(".")[1:] for name in found if name.startswith("slimdex.")]
    return {".".join(parts[:2]) for parts in own if len(parts) > 2}


def test_help_imports_no_more_than_click() -> None:
    found = modules("--help")
    assert libraries(found) <= HELP
    own = {"indexes.codes", "retrieval.cli", "retrieval.encoders", "retrieval.search"}
    assert folders(found) == own
    # The options of a search without what answers it, and the names of poolings.
    modules_of = ("slimdex.retrieval.search.", "slimdex.retrieval.encoders.")
    assert {name for name in found if name.startswith(modules_of)} == {
        "slimdex.retrieval.search.options",
        "slimdex.retrieval.encoders.pooling",
    }
    assert folders(modules("--version")) == {"retrieval.cli"}


def test_info_imports_neither_an_encoder_nor_the_readers_of_files(index: Path) -> None:
    found = modules("info", str(index))
    assert libraries(found) <= INFO
    assert folders(found) == FOLDERS | {"retrieval.quality"}
    assert not {
        name for name in found if name.startswith("slimdex.retrieval.encoders.runtimes.net")
    }


def test_a_search_imports_what_it_runs(index: Path) -> None:
    found = modules("search", str(index), "the cat")
    assert libraries(found) <= SEARCH
    assert folders(found) == FOLDERS
