"""Source code, divided at classes and functions.

Python is parsed by `ast`; other languages, and what `ast` can't parse, by their tree-sitter grammar
if that is installed: comments, attributes and decorators directly above a definition belong to it.
Otherwise, a line is a definition if it begins with a common keyword such as `class` or `fn`; deeper
indented lines belong to it.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, product, starmap
from typing import TYPE_CHECKING, NamedTuple

from ....documents import Part
from ..outline import DEEPEST, Extract, visible_text

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query

PYTHON = (".py", ".pyi")
GRAMMARS = {
    "bash": (".sh", ".bash", ".zsh", ".ksh"),
    "c": (".c",),
    "c_sharp": (".cs",),
    "cpp": (".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx"),
    "go": (".go",),
    "haskell": (".hs",),
    "java": (".java",),
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "julia": (".jl",),
    "kotlin": (".kt", ".kts"),
    "lua": (".lua",),
    "objc": (".m",),
    "php": (".php",),
    "powershell": (".ps1",),
    "python": (".py", ".pyi"),
    "ruby": (".rb",),
    "rust": (".rs",),
    "scala": (".scala",),
    "swift": (".swift",),
    "typescript": (".ts", ".mts", ".tsx"),
}
"""Module, after `tree_sitter_` -> endings of its language."""
MODULES = {ending: module for module, endings in GRAMMARS.items() for ending in endings}
LOADERS = {".php": "language_php", ".tsx": "language_tsx"} | dict.fromkeys(
    (".ts", ".mts"), "language_typescript"
)
"""Ending -> function of the module that returns the grammar, unless that is `language`."""
NAMED_NODES = [
    "abstract_class_declaration", "annotation_type_declaration", "class", "class_declaration",
    "class_definition", "compact_constructor_declaration", "constructor_declaration", "data_type",
    "destructor_declaration", "enum_declaration", "enum_definition", "enum_item", "function",
    "function_declaration", "function_definition", "function_item",
    "generator_function_declaration", "init_declaration", "instance", "interface_declaration",
    "internal_module", "local_function_statement", "macro_definition", "method",
    "method_declaration", "method_definition", "module", "module_definition", "newtype",
    "object_declaration", "object_definition", "protocol_declaration",
    "record_declaration", "singleton_method", "struct_declaration", "struct_item",
    "trait_declaration", "trait_definition", "trait_item", "type_alias_declaration", "type_spec",
    "union_item",
]  # fmt: skip
"""Nodes with a field `name` that define something, in any language."""
UNNAMED_NODES = [
    "class_implementation", "class_interface", "class_method_definition", "class_statement",
    "enum_statement", "function_statement", "impl_item", "macro_definition", "method_definition",
    "operator_declaration", "protocol_declaration", "struct_definition",
]  # fmt: skip
"""Nodes that define something, with its name in another place."""
NODES_WITH_BODY = [
    "class_specifier", "enum_specifier", "mod_item", "namespace_declaration",
    "namespace_definition", "struct_specifier", "union_specifier",
]  # fmt: skip
"""Nodes that define something if they have a body, and only mention it if not."""
FUNCTIONS = ("arrow_function", "function_definition", "function_expression", "generator_function")
HOLDERS = (
    "(assignment_expression right: ({}))",
    "(assignment_statement (expression_list value: ({})))",
    "(field value: ({}))",
    "(field_definition value: ({}))",
    "(pair value: ({}))",
    "(public_field_definition value: ({}))",
    "(variable_declarator value: ({}))",
)
"""Queries for nodes that give a name to a function without one."""
QUERIES = [
    *(f"({kind} name: _)" for kind in NAMED_NODES),
    *(f"({kind})" for kind in UNNAMED_NODES),
    *(f"({kind} name: (_) body: (_))" for kind in NODES_WITH_BODY),
    *starmap(str.format, product(HOLDERS, FUNCTIONS)),
    "(assignment . (call_expression))",
    "(function_definition declarator: (_))",
    "(function_definition (signature))",
    "(type_definition type: (_ body: (_)))",
]
"""Queries for definitions; each grammar has the nodes of only some."""
WRAPPERS = [
    "ambient_declaration", "decorated_definition", "export_statement", "expression_statement",
    "implementation_definition", "lexical_declaration", "template_declaration", "type_declaration",
    "variable_declaration",
]  # fmt: skip
"""Nodes that begin before a definition that they contain."""
NODES_ABOVE = re.compile("comment|attribute|annotation|decorator|haddock|signature|string_literal")
"""Kinds of nodes above a definition that belong to it."""
NAME_FIELDS = ("name", "left", "key", "property", "declarator", "type")
"""Fields of a definition with its name, the first one that is present."""
NAME_NODES = re.compile(
    "identifier|name|signature|type_head|call_expression|variable_list|index_expr"
)
"""Kinds of nodes that are a definition's name or begin with it."""
LONGEST_NAME = 100
LARGEST = 16 << 20
"""Longest text to parse, in characters: a syntax tree takes some hundred bytes for each."""
DEFINED = re.compile(
    r"(?P<indent>[ \t]*)"
    r"(?:(?:export|default|pub(?:\([\w ]+\))?|public|private|protected|internal|static|final|open|"
    r"abstract|sealed|data|async|unsafe|extern(?: \"C\")?|const|inline|override|virtual|partial|"
    r"local|declare|inner|suspend)\s+)*+"
    r"(?:class|struct|interface|enum|trait|impl|union|record|object|protocol|extension|module|"
    r"namespace|package|fn|func|fun|def|defp|defmodule|function\*?|sub|procedure|type)"
    r"\s++(?P<name>(?:\([^)]*\)\s*+)?[\w$.:<>!?~*&' -]*[\w$!?>])"
)
CLOSING = re.compile(r"[\])};,\s]*+(?:end|fi|done|esac|#\s*(?:endif|else)\b.*)?+[\])};,\s]*+")
"""Lines after an inner definition that only close the outer one."""
LONGEST_LINE = 2000
"""Longest line that may be a definition; longer ones are generated code."""


def read(text: str, ending: str) -> Extract:
    r"""Read a file of code; headings are qualified names, anchors are lines, as on GitHub.

    >>> code = read("import os\n\ndef a():\n    pass\n\nprint(a())\n", ".py")
    >>> [(part.start, part.headings, part.anchor) for part in code.parts]
    [(0, (), 'L1'), (11, ('a',), 'L3-L4'), (30, (), 'L6')]
    """
    text = visible_text(text)
    return divide(text, definitions(text, ending))


def divide(text: str, definitions: Iterable[Definition]) -> Extract:
    """Divide a text at its definitions, which are in order."""
    text = text.rstrip()
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    parts = list[Part]()
    open_ = list[Definition]()

    def begin(line: int, end: int = 0) -> None:
        """Begin a part, unless the text ends here or one begins here already."""
        start = starts[line - 1]
        if start < len(text) and not (parts and parts[-1].start >= start):
            name = ".".join(each.name for each in open_[:DEEPEST])
            anchor = f"L{line}-L{end}" if end > line else f"L{line}"
            parts.append(Part(start, (name,) if name else (), None, anchor))

    def go_on(after: int, before: int) -> None:
        """Begin a part of the enclosing definition after the end of an inner one."""
        for line in range(after + 1, before):
            if not CLOSING.fullmatch(lines[line - 1]):
                begin(line)
                break

    # A last definition, after the end of the text, closes all open ones.
    go_on(0, len(lines) + 1)
    for definition in [*definitions, Definition(len(lines) + 1, 0, 0, "")]:
        # Close those that end before it; if their last line is unknown, their level decides.
        while open_ and (
            0 < open_[-1].end < definition.line or open_[-1].level >= definition.level
        ):
            end = open_.pop().end
            if end:
                around = open_[-1].end if open_ else 0
                before = min(definition.line, around + 1) if around else definition.line
                go_on(end, before)
        if definition.name:
            if parts and parts[-1].start == starts[definition.line - 1]:
                parts.pop()  # at the beginning of the file
            open_.append(definition)
            begin(definition.line, definition.end)
    return Extract("", text, parts if any(part.headings for part in parts) else ())


def definitions(text: str, ending: str) -> Iterable[Definition]:
    """Definitions in a text, in order."""
    if ending in PYTHON:
        by_python = _by_python(text)
        if by_python is not None:
            return by_python
    by_nodes = by_grammar(text, ending)
    return by_keywords(text.split("\n")) if by_nodes is None else by_nodes


def _by_python(text: str) -> list[Definition] | None:
    """Definitions by Python's own parser; None if it can't read the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return [*_python(ast.parse(text), 1)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # for another Python version, or incomplete


def _python(node: ast.AST, level: int) -> Iterator[Definition]:
    """Yield the definitions in a node's body, except those inside functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
            yield Definition(first, child.end_lineno or 0, level, child.name)
            if isinstance(child, ast.ClassDef):
                yield from _python(child, level + 1)
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from _python(child, level)


class Definition(NamedTuple):
    """First and last line of a class or function, from 1; the last is 0 if unknown.

    Attributes
    ----------
    level : 1 for outermost ones.
    """

    line: int
    end: int
    level: int
    name: str


def by_grammar(text: str, ending: str) -> list[Definition] | None:
    """Definitions in a text; None if the language's grammar is unknown or not installed."""
    grammar = None if len(text) > LARGEST else _grammar(ending)
    if grammar is None:
        return None
    from tree_sitter import Parser, QueryCursor  # an optional library

    language, query = grammar
    tree = Parser(language).parse(text.encode("utf-8", "replace"))
    nodes = QueryCursor(query).captures(tree.root_node).get("it", [])
    # Sort by start; of nodes that start together, the outer ones come first.
    return _definitions(sorted(nodes, key=lambda node: (node.start_byte, -node.end_byte)))


@cache
def lacks_grammar(ending: str) -> bool:
    """Return whether files with an ending are cut by keywords until the extra `code` is installed.

    >>> lacks_grammar(".py"), lacks_grammar(".md")
    (False, False)
    """
    module = MODULES.get(ending)
    if module is None or ending in PYTHON:
        return False
    return not all(find_spec(name) for name in ("tree_sitter", f"tree_sitter_{module}"))


@cache
def _grammar(ending: str) -> tuple[Language, Query] | None:
    """Grammar and query of a language; None if unknown or not installed."""
    module = MODULES.get(ending)
    if module is None:
        return None
    try:
        from tree_sitter import Language, Query  # an optional library

        grammar = import_module(f"tree_sitter_{module}")
    except ModuleNotFoundError:
        return None
    language = Language(getattr(grammar, LOADERS.get(ending, "language"))())
    return language, Query(language, "\n".join(f"{query} @it" for query in _queries_for(language)))


def _queries_for(language: Language) -> Iterator[str]:
    """Queries for nodes that a grammar has."""
    from tree_sitter import Query, QueryError  # an optional library

    for query in QUERIES:
        kinds = re.findall(r"\(([a-z]\w+)", query)
        if all(language.id_for_node_kind(kind, True) for kind in kinds):
            with suppress(QueryError):  # of a field or an order that the grammar lacks
                Query(language, query)
                yield query


def _definitions(nodes: list[Node]) -> list[Definition]:
    """Definitions of nodes in order; of those that begin in the same line, the outermost."""
    definitions = list[Definition]()
    open_ = list[int]()  # byte offsets at which the definitions around a node end
    for node in nodes:
        while open_ and open_[-1] <= node.start_byte:
            open_.pop()
        line = _first_row(node) + 1
        end = _last_row(node) + 1
        name = _name(node)
        before = definitions[-1] if definitions else Definition(0, 0, 0, "")
        if not name or line <= before.line:
            continue
        level = len(open_) + 1
        if (before.name, before.level) == (name, level) and line <= before.end + 1:
            # Another equation of a function.
            definitions[-1] = Definition(before.line, end, level, name)
            continue
        definitions.append(Definition(line, end, level, name))
        open_.append(node.end_byte)
    return definitions


def _name(node: Node) -> str:
    """Name of a definition on one line; "" if it has none."""
    # Find the node of the name: a field of the definition, or a child of a type for names.
    fields = map(node.child_by_field_name, NAME_FIELDS)
    named = next(filter(None, fields), None)
    named = named or next((c for c in node.named_children if NAME_NODES.search(c.type)), None)
    while named and (inner := named.child_by_field_name("declarator")):
        named = inner  # in C, declarators are nested, and the innermost is the name

    # Take its text, and add the trait or type that a method belongs to.
    text = _text(named).lstrip("(*& ").partition("(")[0] if named else ""
    if trait := node.child_by_field_name("trait"):
        text = f"{_text(trait)} for {text}"
    if receiver := node.child_by_field_name("receiver"):
        owner = re.findall(r"\w+", _text(receiver).partition("[")[0])
        text = f"{owner[-1]}.{text}" if owner else text
    return " ".join(text.split())[:LONGEST_NAME]


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _first_row(node: Node) -> int:
    """First row of a definition, with what belongs to it above."""
    # Include a wrapper, such as an export, that begins with this definition.
    while (outer := node.parent) and outer.type in WRAPPERS:
        before = node.prev_named_sibling
        if before is not None and before.type == node.type:
            break
        node = outer

    # Include comments and the like, each directly above the next.
    row = node.start_point.row
    above = node.prev_named_sibling
    while above is not None and NODES_ABOVE.search(above.type) and row - _last_row(above) <= 1:
        before = above.prev_named_sibling
        if before is not None and _last_row(before) == above.start_point.row:
            break  # a comment behind other code
        row = above.start_point.row
        above = before
    return row


def _last_row(node: Node) -> int:
    """Last row of a node; some end with the newline."""
    return node.end_point.row - (node.end_point.column == 0)


def by_keywords(lines: Sequence[str]) -> Iterator[Definition]:
    """Yield the definitions in lines of code; their ends are unknown."""
    # A definition is inside the previous one if it is indented further.
    indents: list[int] = []
    for number, line in enumerate(lines, start=1):
        match = DEFINED.match(line) if len(line) <= LONGEST_LINE else None
        if match is None or line.rstrip().endswith(";"):
            continue
        indent = len(match["indent"].expandtabs(4))
        while indents and indents[-1] >= indent:
            indents.pop()
        indents.append(indent)
        yield Definition(number, 0, len(indents), " ".join(match["name"].split()))
