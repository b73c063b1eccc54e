"""A folder that is restored from a copy under open collections: they answer as new ones do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex import Collection, Document, InputError
from slimdex.retrieval.ingest.writer import rebuild
from slimdex.system.atomic_files import remove
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder, Rotated


def documents(word: str, count: int) -> list[Document]:
    """Documents of words of their own, one of which is empty, and one too long for the encoder."""
    texts = [f"{word}{i} {word} and {i % 3} others" for i in range(count)]
    texts[-2:] = ["", " ".join(f"{word}{i}" for i in range(40))]
    return [Document(f"{word}{i}", text, metadata={"w": word}) for i, text in enumerate(texts)]


def by_files(copy: Path, path: Path) -> None:
    """As `rsync -a --delete` does: each file is written beside the old one, and renamed."""
    for old in path.iterdir():
        if old.is_dir() or not (copy / old.name).exists():
            remove(old)
    for file in copy.iterdir():
        if file.is_dir():
            shutil.copytree(file, path / file.name)
        else:
            shutil.copy2(file, path / f"{file.name}~")
            os.replace(path / f"{file.name}~", path / file.name)


def in_place(copy: Path, path: Path) -> None:
    """As `cp -a` does: into the files that exist."""
    for old in path.iterdir():
        if old.is_dir() or not (copy / old.name).exists():
            remove(old)
    shutil.copytree(copy, path, dirs_exist_ok=True)


def by_folder(copy: Path, path: Path) -> None:
    """The folder as a whole, by renaming."""
    new = Path(shutil.copytree(copy, path.with_name("new")))
    path.rename(path.with_name("old"))
    new.rename(path)
    shutil.rmtree(path.with_name("old"))


RESTORE = {each.__name__: each for each in (by_files, in_place, by_folder)}


def answers(collection: Collection) -> dict[str, Any]:
    """Answers that depend on each kind of file."""
    hits = collection.search_many(["a5", "b5 b", "c1 others", "x2"], limit=5)
    lexical = collection.search("b3 c3 x3", limit=5, hybrid="rrf")
    listed = collection.get(where="true", vectors=True)
    return {
        "version": collection.version,
        "count": len(collection),
        "where": {word: collection.count(f"w = '{word}'") for word in "abcx"},
        "in": [f"{word}5" in collection for word in "abcx"],
        "documents": [(document.id, document.text) for document in collection],
        "vectors": [(each.id, np.asarray(each.vectors).tolist()) for each in listed],
        "hits": [[(hit.id, hit.text, hit.score) for hit in each] for each in [*hits, lexical]],
        "unread": collection.info()["passages"],
    }


def check(opened: Collection, path: Path, expected: list[Document]) -> None:
    """Compare an open collection with a new one, and both with what they must have."""
    with Collection.open(path, ReadingEncoder()) as new:
        assert answers(opened) == answers(new)
    assert {each.id: each.text for each in opened} == {each.id: each.text for each in expected}
    assert opened.verify() == []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.index"
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add(documents("x", 30))
    return path


def changed(path: Path, change: Callable[[Collection], object]) -> None:
    """As another process would."""
    with Collection.open(path, ReadingEncoder()) as other:
        change(other)


def test_deletions_of_the_same_number_are_told_apart(path: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(path, tmp_path / "copy")
    with Collection.open(path, ReadingEncoder()) as opened:
        changed(path, lambda c: c.delete("x3"))
        assert ("x3" in opened, "x4" in opened) == (False, True)
        by_files(copy, path)
        changed(path, lambda c: c.delete("x4"))
        assert ("x3" in opened, "x4" in opened) == (True, False)


@pytest.mark.slow
def test_an_iteration_that_has_begun_ends_as_it_began(path: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(path, tmp_path / "copy")
    changed(path, lambda c: c.add(documents("a", 1100)))
    expected = [each.id for each in documents("x", 30) + documents("a", 1100)]
    with Collection.open(path, ReadingEncoder()) as opened:
        iteration = iter(opened)
        begun = [next(iteration).id]
        by_files(copy, path)
        changed(path, lambda c: c.add(documents("b", 1100)))
        assert len(opened) == 1130
        assert begun + [each.id for each in iteration] == expected
        check(opened, path, documents("x", 30) + documents("b", 1100))


def test_a_call_during_which_it_is_restored_starts_over(path: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(path, tmp_path / "copy")
    changed(path, lambda c: c.add(documents("a", 20)))
    with Collection.open(path, ReadingEncoder()) as opened:
        seen = list[int]()

        def read(snapshot: Any) -> list[str]:
            seen.append(len(snapshot))
            if len(seen) == 1:
                by_files(copy, path)
                changed(path, lambda c: c.add(documents("b", 20)))
            return [hit.id for hit in snapshot.store.documents(snapshot.live_documents()).values()]

        assert opened.index.read(read) == [
            each.id for each in documents("x", 30) + documents("b", 20)
        ]
        assert len(seen) == 2


def test_a_new_index_at_the_same_place(path: Path) -> None:
    """Of another encoder, and then another one of the same."""
    with Collection.open(path, ReadingEncoder()) as opened:
        assert opened.search("x5", limit=1)[0].id == "x5"
        shutil.rmtree(path)
        with Collection.create(path, Rotated()) as other:
            other.add([Document(f"r{i}", f"rotated{i}") for i in range(30)])
        assert len(opened) == 30
        assert "r5" in opened
        with pytest.raises(InputError, match="pass that encoder"):
            opened.search("rotated5")
        shutil.rmtree(path)
        with Collection.create(path, ReadingEncoder()) as other:
            other.add(documents("b", 30))
        check(opened, path, documents("b", 30))


STEPS = st.sampled_from(["add", "delete", "undo", "compact", "rebuild", "save", *RESTORE, "look"])


@sweep
@settings(max_examples=CHANCE.examples(CHANCE.count(50, 4)))
@given(st.lists(STEPS, min_size=3, max_size=14), st.randoms(use_true_random=False))
def test_any_order_of_changes_and_restored_copies(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], random: Any
) -> None:
    folder = tmp_path_factory.mktemp("restored")
    path, copies = folder / "x.index", list[tuple[Path, dict[str, Document]]]()
    now = {each.id: each for each in documents("x", 12)}
    before: dict[str, Document] | None = None
    with Collection.create(path, ReadingEncoder()) as opened:
        opened.add([*now.values()])
        for number, step in enumerate([*steps, "look"]):
            if step == "save":
                copies.append((folder / f"copy{number}", dict(now)))
                opened.copy_to(copies[-1][0])
            elif step in RESTORE and copies:
                copy, now = random.choice(copies)
                now, before = dict(now), None
                RESTORE[step](copy, path)
            elif step == "look":
                check(opened, path, [*now.values()])
            elif step == "add":
                new = documents(random.choice("abc"), random.randrange(2, 9))
                before, now = now, now | {each.id: each for each in new}
                changed(path, lambda c, new=new: c.add(new))  # type: ignore[misc]
            elif step == "delete" and len(now) > 4:
                id = random.choice(sorted(now))
                before, now = now, {key: each for key, each in now.items() if key != id}
                changed(path, lambda c, id=id: c.delete(id))  # type: ignore[misc]
            elif step == "undo" and before is not None:
                changed(path, Collection.undo)
                now, before = before, now
            elif step in ("compact", "rebuild"):
                changed(
                    path, Collection.compact if step == "compact" else lambda c: rebuild(c.index)
                )
                before = None
    shutil.rmtree(folder)
