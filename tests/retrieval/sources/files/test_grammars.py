"""Definitions by grammar: their lines, nesting and names in twenty languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.retrieval.lexical.code_files import CODE
from slimdex.retrieval.sources.files.formats import source_code
from slimdex.retrieval.sources.files.formats.source_code import (
    LARGEST,
    MODULES,
    Definition,
    by_grammar,
)

from .reading import pieces

pytest.importorskip("tree_sitter")

SAMPLES = dict[str, tuple[str, str]]()
"""Ending -> code, and its definitions: lines and name, indented by level; written by hand."""
for sample in Path(__file__).with_name("definitions.txt").read_text().split("==== ")[1:]:
    name, _, rest = sample.partition("\n")
    SAMPLES[name] = (rest.partition("---- found\n")[0], rest.partition("---- found\n")[2])


def shown(found: list[Definition] | None) -> str:
    return "".join(f"{'  ' * (d.level - 1)}{d.line}-{d.end} {d.name}\n" for d in found or [])


@pytest.mark.parametrize("ending", SAMPLES)
def test_definitions(ending: str) -> None:
    code, definitions = SAMPLES[ending]
    assert shown(by_grammar(code, ending)) == definitions


def test_every_grammar_has_a_sample() -> None:
    assert {MODULES[ending] for ending in SAMPLES} == set(MODULES.values())
    assert set(MODULES) <= CODE


C = """\
#include <x.h>
static int depth; /* of nesting */
int
open_file(const char *name)
{
    return 0;
}

/* Close it.
 * Twice is an error. */
int close_file(int file) {
    return depth;
}
"""


def test_a_comment_belongs_to_what_follows_it_unless_it_ends_a_line_of_code() -> None:
    assert pieces(source_code.read(C, ".c")) == [
        ((), "L1", "#include <x.h>\nstatic int depth; /* of nesting */"),
        (
            ("open_file",),
            "L3-L7",
            "int\nopen_file(const char *name)\n{\n    return 0;\n}",
        ),
        (
            ("close_file",),
            "L9-L13",
            "/* Close it.\n * Twice is an error. */\n"
            "int close_file(int file) {\n    return depth;\n}",
        ),
    ]


def test_generated_code() -> None:
    one_line = "function a(){return function b(){}}" * 20_000
    assert by_grammar(one_line, ".js") == [Definition(1, 1, 1, "a")]
    assert by_grammar("x" * (LARGEST + 1), ".js") is None


def test_broken_code_keeps_its_whole_functions() -> None:
    text = "int a(void) {\n}\n\nMACRO(x, %%) ((\n\nint b(void)\n{\n  return 1;\n}\n"
    found = by_grammar(text, ".c") or []
    assert (found[0].name, found[0].line, found[0].end) == ("a", 1, 2)
