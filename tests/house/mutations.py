"""Thirty small mutations of the code, each of which the tests of its room must catch.

``python -m tests.house.mutations [NUMBER ...]`` changes a copy of the checkout, one place at a
time, and runs the tests of that room until the first failure. A place is found by its text, so
that it may move. A line is printed for each, with the test that failed; the exit status is the
number of mutations that no test caught.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Mutation(NamedTuple):
    """A text that occurs once in the source, what replaces it, and the room's tests."""

    old: str
    new: str
    tests: str


MUTATIONS = [
    Mutation("(1.0 - beta) ** 2 * np.outer", "(1.0 - beta) * np.outer", "indexes/reducers"),
    Mutation("(sign * self.n * other.n / n) *", "(sign * other.n / n) *", "indexes/reducers"),
    Mutation("bits = (bits + _HALF) & _UPPER", "bits = bits & _UPPER", "indexes/vectors"),
    Mutation(
        "products -= self.shifts[:, None]", "products += self.shifts[:, None]", "indexes/search"
    ),
    Mutation("falling <= np.partition(", "falling < np.partition(", "indexes"),
    Mutation("RRF_K + 1 + np.arange", "RRF_K + np.arange", "retrieval/lexical retrieval/search"),
    Mutation(
        "scores[candidates.is_named] += NAMED",
        "pass",
        "retrieval/lexical retrieval/search",
    ),
    Mutation("(total - rows + 0.5) /", "(total - rows) /", "retrieval/lexical"),
    Mutation("name == self._name_of(version)", "True", "retrieval/store retrieval/collection"),
    Mutation(
        "if size != self.bytes:",
        "if size < self.bytes:",
        "retrieval/store system/test_atomic_files.py",
    ),
    Mutation("if digest != known]", "if False]", "retrieval/store retrieval/crashes"),
    Mutation("        sync(temporary)\n        record", "        record", "retrieval/crashes"),
    Mutation("union(added, came_back)", "came_back", "retrieval/ingest"),
    Mutation(
        "_json([parts_written(document.parts), *self.values])",
        "_json(self.values)",
        "retrieval/ingest retrieval/collection",
    ),
    Mutation("if _is_at(path, file):", "if True:", "system/test_locks.py"),
    Mutation("source.may_go(id, ", "bool(", "retrieval/test_syncing.py retrieval/ingest"),
    Mutation(
        "return ndcg(ids, labels), 1 / first, *recalls",
        "return ndcg(ids, labels), first, *recalls",
        "retrieval/quality",
    ),
    Mutation(" & (owners[owner] < 0)", "", "retrieval/quality"),
    Mutation("states.float() * weights", "states.float()", "retrieval/encoders"),
    Mutation("dim=self.dim or None", "dim=None", "retrieval/encoders/over_http"),
    Mutation("data = runs.pop()[1] + data", "data = runs.pop()[1]", "retrieval/sources"),
    Mutation("return match.lastindex is None", "return True", "retrieval/sources"),
    Mutation("> MENTIONS:", "> 9999:", "retrieval/store"),
    Mutation(
        "return line + text.count(",
        "return line + 1 + text.count(",
        "retrieval/search retrieval/collection",
    ),
    Mutation(
        "units[last].tokens * SHARE <= room",
        "True",
        "retrieval/test_passages.py retrieval/collection",
    ),
    Mutation("if request.scope[RIGHT] < right:", "if False:", "retrieval/server"),
    Mutation("            self.size -= size", "            pass", "retrieval/server"),
    Mutation(
        "say(interrupt_message())\n            raise SystemExit(INTERRUPT_CODE)",
        "say(interrupt_message())\n            raise SystemExit(2)",
        "retrieval/cli",
    ),
    Mutation('f"{hit.id}#{number}"', 'f"{hit.id}"', "retrieval/exporting"),
    Mutation("with_transform(weight, bias)", "with_transform(weight, None)", "retrieval/exporting"),
]


def main(numbers: Iterable[int]) -> int:
    """Try mutations by their numbers, from 1 on; return how many no test caught."""
    missed = 0
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        listed = ["git", "ls-files", "-co", "--exclude-standard"]
        for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        for number in numbers:
            caught = _caught(copy, MUTATIONS[number - 1])
            missed += caught is None
            print(
                f"{number}\t{MUTATIONS[number - 1].old.strip()!r}\t{caught or 'MISSED'}", flush=True
            )
    return missed


def _caught(copy: Path, mutation: Mutation) -> str | None:
    """The first test that fails with a mutation; None if none does."""
    sources = {path: path.read_text("utf-8") for path in (copy / "slimdex").rglob("*.py")}
    (file,) = [path for path, text in sources.items() if mutation.old in text]
    before, after = sources[file].split(mutation.old)
    file.write_text(before + mutation.new + after, "utf-8")
    rooms = [f"tests/{room}" for room in mutation.tests.split()]
    pytest = [sys.executable, "-m", "pytest", "-qx", "-m", "", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*pytest, str(file.relative_to(copy)), *rooms],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
        )
    finally:
        file.write_text(sources[file], "utf-8")
    failed = FAILED.search(done.stdout)
    return failed[1] if failed else None


if __name__ == "__main__":
    sys.exit(main(map(int, sys.argv[1:]) if sys.argv[1:] else range(1, len(MUTATIONS) + 1)))
