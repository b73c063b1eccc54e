"""No commit is built on an older state than the newest, whatever came between."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from slimdex.errors import CorruptError, InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.store.manifest import Manifest
from slimdex.system.index_names import MANIFEST
from tests.encoders import WordEncoder
from tests.retrieval.word_documents import documents, forty


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return forty(tmp_path / "i.index")


@pytest.mark.slow
def test_a_search_that_has_read_an_older_manifest_does_not_show_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, may_go, has_read = Manifest.read_current, threading.Event(), threading.Event()

    def slowly(folder: Path, before: Manifest | None = None) -> Manifest:
        manifest = read(folder, before)
        if threading.current_thread().name == "search":
            has_read.set()
            may_go.wait()
        return manifest

    with Collection.open(path, WordEncoder()) as one, Collection.open(path, WordEncoder()) as two:
        assert len(one) == 40
        search = threading.Thread(target=lambda: len(one), name="search")
        monkeypatch.setattr(Manifest, "read_current", slowly)
        two.add(documents(40, 41))
        search.start()
        assert has_read.wait(60)
        two.add(documents(41, 42))
        threading.Timer(0.5, may_go.set).start()
        one.add(documents(100, 101))
        search.join()
        assert {"40", "41", "100"} <= {each.id for each in one} == {each.id for each in two}
    assert verify(path) == []


def test_a_folder_that_is_replaced_while_a_change_waits_keeps_its_files(path: Path) -> None:
    backup = Path(shutil.copytree(path, path.with_name("backup")))
    with Collection.open(backup, WordEncoder()) as other:
        other.add(documents(40, 60))
    with Collection.open(path, WordEncoder()) as collection:
        turn = collection.index._turn
        held = turn.hold

        @contextmanager
        def waiting(seconds: float) -> Iterator[None]:
            path.rename(path.with_name("old"))
            backup.rename(path)
            with held(seconds):
                yield

        turn.hold = waiting  # type: ignore[assignment,method-assign]
        with pytest.raises(InputError, match="was moved or replaced"):
            collection.delete("3")
    assert verify(path) == []
    with Collection.open(path) as restored:
        assert len(restored) == 60


def test_a_type_in_a_manifest_is_no_statement(path: Path) -> None:
    manifest, evil = Manifest.read(path), path / "evil.bin"
    type_ = f"BIGINT) AS n); COPY (SELECT 1) TO '{evil}'; --"
    replace(manifest, columns={"n": type_}).write(path / MANIFEST)
    with pytest.raises(CorruptError, match="expected types"):
        Collection.open(path)
    assert not evil.exists()
