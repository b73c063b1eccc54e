from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slimdex.errors import CorruptError, InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repairing import repair, verify
from tests.conftest import Copies
from tests.encoders import WordEncoder

QUERIES = ["parse a date", "remove a directory"]
DERIVED = ["reducer", "rescorer", "moments", "norms", "codes", "offsets"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, copied: Copies) -> Path:
    path = copied(tmp_path_factory.mktemp("made") / "x.index")
    with Collection.open(path, WordEncoder()) as collection:
        collection.delete(where="kind = 'class'")
    return path


@pytest.fixture
def path(tmp_path: Path, made: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "x.index"))


def find(path: Path, role: str) -> Path:
    *_, file = sorted(path.glob(f"{role}*"))  # `undo` needs an older one
    return file


def flip(file: Path, at: float = 0.5) -> None:
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    file.write_bytes(data)


def answers(path: Path) -> list[list[tuple[str, float]]]:
    with Collection.open(path, WordEncoder()) as collection:
        results = collection.search_many(QUERIES, limit=20, hybrid="off")
    return [[(hit.id, round(hit.score, 4)) for hit in hits] for hits in results]


def test_a_sound_index_has_no_faults(path: Path) -> None:
    assert verify(path) == []
    assert repair(path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "damage"),
    [
        *((role, "flip") for role in DERIVED),
        ("codes", "cut"),
        ("moments", "cut"),
        ("norms", "gone"),
    ],
)
def test_damage_to_derived_files_is_found_and_repaired(path: Path, role: str, damage: str) -> None:
    before = answers(path)
    file = find(path, role)
    if damage == "flip":
        flip(file)
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-5])
    else:
        file.unlink()
    faults = verify(path)
    assert len(faults) == 1
    assert file.name in faults[0]
    if role in ("reducer", "rescorer", "codes"):  # of the others no more than a part is read
        with pytest.raises(CorruptError, match="slimdex repair"):
            answers(path)
    assert repair(path) == faults
    assert verify(path) == []
    after = answers(path)
    if role not in ("reducer", "rescorer"):
        assert after == before
    # Fitted again, the reducer no longer knows the deleted documents.
    for old, new in zip(before, after, strict=True):
        assert len({id for id, _ in old} & {id for id, _ in new}) >= 10


@pytest.mark.parametrize("at", [0.2, 0.5, 0.9])
def test_damaged_columns_are_found_and_repaired(path: Path, at: float) -> None:
    before = answers(path)
    file = find(path, "columns")
    flip(file, at)
    faults = verify(path)
    assert len(faults) == 1
    assert file.name in faults[0]
    assert repair(path) == faults
    assert verify(path) == []
    assert answers(path) == before


def test_damaged_vectors_are_found_and_not_repaired(path: Path) -> None:
    file = find(path, "vectors")
    flip(file, 0.5)
    damaged = file.read_bytes()
    (fault,) = verify(path)
    assert f"{file.name}: damaged in bytes 0 to " in fault
    with pytest.raises(CorruptError, match="vectors"):
        repair(path)
    assert file.read_bytes() == damaged


@pytest.mark.slow
@pytest.mark.parametrize("role", ["vectors", "norms", "documents", "offsets"])
def test_an_addition_does_not_hide_damage(path: Path, role: str) -> None:
    flip(find(path, role))
    faults = verify(path)
    with (
        Collection.open(path, WordEncoder()) as collection,
        pytest.raises(CorruptError, match=f"{role}.*damaged in its last block"),
    ):
        collection.add([Document("new", "some text")])
    assert verify(path) == faults


def test_a_folder_without_an_index_is_refused(tmp_path: Path) -> None:
    for action in (verify, repair):
        with pytest.raises(InputError, match="no slimdex index there"):
            action(tmp_path)
