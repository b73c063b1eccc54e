"""Questions made of descriptions, which are gone from the code, and the rows of a small tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.code.code_study import SEARCHES, WAYS, measure_code
from slimdex.bench.code.trees import Question, read_tree, without_descriptions
from slimdex.bench.columns import check_row
from slimdex.bench.reporting.tables.code import functions
from slimdex.bench.rows import ResultsFile
from slimdex.indexes.errors import InputError
from tests.bench.conftest import ABOUT
from tests.bench.test_cli import bench
from tests.encoders import WordEncoder

pytest.importorskip("tree_sitter")

PYTHON = '''\
class Valve:
    """A valve."""

    @cached
    def shut(self):
        """Close it at once,
        and wait for the water. Or not.
        """
        # now
        return 1

    def drain(self):
        """Drain."""
        return 2

    def only(self):
        """A function with nothing else in its body."""
'''
JS = """\
/**
 * Close it at once, and wait for the water.
 * @param {number} x seconds
 */
export function shut(x) {
    return x;
}

// Calls the drain function, as in drain().
const drain = () => {
    return 2;
};

/** Class for valves of a house, and of a garden. */
class Valve {
}
"""


def test_docstrings_become_questions() -> None:
    rest, questions = without_descriptions("a.py", PYTHON)
    assert rest.split("\n") == [
        *("class Valve:", "", "    @cached", "    def shut(self):", "        # now"),
        *("        return 1", "", "    def drain(self):", "        return 2", ""),
        *("    def only(self):", '        """A function with nothing else in its body."""', ""),
    ]
    said = "Close it at once, and wait for the water"
    assert questions == [Question(said, "a.py", 3, 6)]


def test_comments_become_questions() -> None:
    rest, questions = without_descriptions("a.js", JS)
    assert rest.split("\n")[:4] == ["export function shut(x) {", "    return x;", "}", ""]
    assert "Calls" not in rest
    assert "Class" not in rest
    said = "Close it at once, and wait for the water"
    assert questions == [Question(said, "a.js", 1, 3)]


def test_rows_of_a_small_tree(tmp_path: Path) -> None:
    words = [f"w{i} v{i} u{i} t{i} s{i}" for i in range(60)]
    for number in range(3):
        found = (
            f"/* {said} */\nint f{i}_(void)\n{{\n{f'    call({said});{chr(10)}' * 4}}}\n\n"
            for i, said in enumerate(words[20 * number :][:20])
        )
        (tmp_path / f"file{number}.c").write_text("#include <x.h>\n\n" + "".join(found))
    tree = read_tree(str(tmp_path), 10, 1000)
    assert len(tree.questions) == 60
    results = ResultsFile(tmp_path / "rows" / "functions-words.jsonl")
    measure_code(tree, WordEncoder(), "words", results, ABOUT)
    rows = {(row["way"], row["what"]): row for row in results.rows.values()}
    assert rows.keys() == {(way, search) for way in WAYS for search in SEARCHES}
    for row in rows.values():
        check_row(row)
        assert (row["documents"], row["queries"], row["file recall@10"]) == (3, 60, 100)
    assert rows["grammar", "meaning"]["function recall@10"] == 100
    assert functions([*rows.values()])[0].rows


def test_a_tree_without_descriptions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(InputError, match="no described functions"):
        read_tree(str(tmp_path), 10, 10)


def test_options_without_a_value_that_works(tmp_path: Path) -> None:
    for words, said in (
        (("--files", "0"), "--files 0; expected 1 or more"),
        (("--questions", "0"), "--questions 0; expected 1 or more"),
        (("--trees", "nowhere"), "nowhere: no described functions"),
    ):
        with pytest.raises(InputError) as refused:
            bench("functions", *words, folder=tmp_path)
        assert str(refused.value).startswith(said)
