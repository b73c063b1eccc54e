"""reStructuredText: visible text, by docutils, including directives and roles of Sphinx."""

from __future__ import annotations

import re
from typing import Any

from ..outline import Extract, Outline

DIRECTIVE = re.compile(r"^[ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([\w][\w:.+-]*)[ \t]*::", re.M)
ROLE = re.compile(r":([A-Za-z][\w:.+-]*):`|`:([A-Za-z][\w:.+-]*):")
UNSEEN = frozenset(
    ["toctree", "index", "currentmodule", "module", "highlight", "only", "contents", "meta"]
)
"""Directives without text of their own."""
CODE = ("code", "code-block", "sourcecode", "doctest", "math", "graphviz")
"""Directives with literal content; Sphinx adds options to some of them."""
OBJECTS = re.compile(
    r"(?:\w+:)?(?:function|class|method|attribute|data|module|exception|macro|type|option|"
    r"automodule|autoclass|autofunction|envvar|describe|property|classmethod|staticmethod|"
    r"decorator|member|var|struct|cmdoption|program|confval)$"
)
"""Directives whose argument becomes a heading."""
ENTRY = 10
"""Level of these headings: below all sections."""
SETTINGS = {
    "file_insertion_enabled": False,  # a text must not include other files
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "_disable_config": True,
    "line_length_limit": 1_000_000,
    "smart_quotes": False,
    "doctitle_xform": False,
    "warning_stream": "",
}


def read(text: str) -> Extract:
    r"""Read a text; its title is the first heading.

    >>> tea = read("Tea\n===\n\nBoil *fresh* water, see :ref:`taps`.\n")
    >>> tea.title, tea.text, tea.parts[0].anchor
    ('Tea', 'Tea\n\nBoil fresh water, see taps.', 'tea')
    """
    from docutils.core import publish_doctree

    _register_unknown(text)
    tree = publish_doctree(text, settings_overrides=SETTINGS)
    outline = Outline()
    _Reader(outline).read(tree)
    return Extract(outline.first_heading, outline.text, outline.parts)


def _register_unknown(text: str) -> None:
    """Register unknown directives and roles with docutils, which would drop them."""
    from docutils.parsers.rst import directives, languages, roles
    from docutils.utils import Reporter, new_document

    document = new_document("")
    document.reporter = Reporter("", 5, 5, stream=False)
    english = languages.get_language("en", document.reporter)
    for name in {name.lower() for name in DIRECTIVE.findall(text)}:
        known, _ = directives.directive(name, english, document)
        if known is None or name in CODE:
            directives.register_directive(name, _shown_directive())
    for name in {(before or after).lower() for before, after in ROLE.findall(text)}:
        known, _ = roles.role(name, english, 0, document.reporter)
        if known is None:
            roles.register_local_role(name, _shown_role)


def _shown_role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: Any = None,
    content: Any = (),
) -> tuple[list[Any], list[Any]]:
    """Text that Sphinx shows: the title before <target>, and c for ~a.b.c."""
    from docutils import nodes

    found = re.fullmatch(r"(.*?)\s*<[^<>]*>", text, re.S)
    shown = found[1] if found and found[1] else text
    shown = shown.lstrip("!")
    shown = shown.rpartition(".")[2] if shown.startswith("~") else shown
    return [nodes.inline(rawtext, shown)], []


def _shown_directive() -> Any:
    from docutils import nodes
    from docutils.parsers.rst import Directive, directives

    class AnyOption(dict[str, Any]):
        """Options of any name."""

        def __missing__(self, name: str) -> Any:
            return directives.unchanged

    class Shown(Directive):  # type: ignore[misc]
        """Directive that shows its argument and content."""

        has_content, optional_arguments, final_argument_whitespace = True, 1, True
        option_spec = AnyOption({"class": directives.unchanged})

        def run(self) -> list[Any]:
            """Return nodes of the argument and the content."""
            if self.name.lower() in UNSEEN:
                return []
            box = nodes.container()
            named = "\n".join(self.arguments)
            if named and OBJECTS.match(self.name.lower()):
                box["names_entry"] = named
            elif named and self.name.lower() not in CODE:
                box += nodes.paragraph(named, named)
            if self.name.lower() in CODE:
                code = "\n".join(self.content)
                box += nodes.literal_block(code, code)
            else:
                self.state.nested_parse(self.content, self.content_offset, box)
            return [box]

    return Shown


class _Reader:
    """Walker of a docutils tree; sections become headings."""

    def __init__(self, outline: Outline) -> None:
        self._outline, self._level = outline, 0
        self._bullet = ""

    def read(self, node: Any) -> None:
        """Read an element and its children."""
        from docutils import nodes

        unseen = (
            nodes.comment, nodes.system_message, nodes.substitution_definition, nodes.target,
            nodes.pending, nodes.raw, nodes.docinfo, nodes.image,
        )  # fmt: skip
        if isinstance(node, unseen):
            return
        if isinstance(node, nodes.section):
            self._section(node)
        elif isinstance(node, nodes.container) and "names_entry" in node:
            self._outline.heading(ENTRY, node["names_entry"])
            self._each(node)
            self._outline.leave(ENTRY)
        elif isinstance(node, nodes.bullet_list | nodes.enumerated_list):
            for number, item in enumerate(node.children, start=node.get("start", 1)):
                is_bullet = isinstance(node, nodes.bullet_list)
                self._bullet = "- " if is_bullet else f"{number}. "
                self._each(item)
        elif isinstance(node, nodes.table):
            for number, row in enumerate(node.findall(nodes.row)):
                cells = "\t".join(" ".join(cell.astext().split()) for cell in row)
                self._outline.add(cells, "\n" if number else "\n\n")
        elif isinstance(node, nodes.field | nodes.option_list_item | nodes.line_block):
            separator = "\n" if isinstance(node, nodes.line_block) else " "
            self._add(separator.join(child.astext() for child in node.children))
        elif isinstance(node, nodes.literal_block | nodes.doctest_block):
            self._outline.add(node.astext())
        elif isinstance(node, nodes.TextElement):
            self._add(" ".join(node.astext().split()))
        else:
            self._each(node)

    def _each(self, node: Any) -> None:
        for child in node.children:
            self.read(child)

    def _section(self, node: Any) -> None:
        self._level += 1
        title, *rest = node.children
        anchor = next(iter(node["ids"]), "")
        self._outline.heading(self._level, title.astext(), anchor)
        for child in rest:
            self.read(child)
        self._outline.leave(self._level)
        self._level -= 1

    def _add(self, text: str) -> None:
        self._outline.add(self._bullet + text, "\n" if self._bullet else "\n\n")
        self._bullet = ""
