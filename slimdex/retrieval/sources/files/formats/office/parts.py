"""Parts of an Office Open XML file, which are found by their relationships, not by their names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...archives import Archive, attribute, elements, events, local
from ...decoding import decoded
from ...kinds import HEAD, kind_of
from .. import html_pages, mail

FIGURES = ("chart", "chartex", "diagramdata")
"""Kinds of parts that contain the labels of charts and diagrams."""


class Relation(NamedTuple):
    """Reference from a part to another: its id there, its kind in lower case, and the part."""

    id: str
    kind: str
    part: str


def relations(archive: Archive, part: str = "") -> list[Relation]:
    """Parts that a part refers to, or (without one) those that the file begins with."""
    folder, base = posixpath.split(part)
    listed = elements(archive.read(f"{folder}/_rels/{base}.rels"))
    found = list[Relation]()
    for each in (e.attributes for e in listed if e.name == "Relationship"):
        if attribute(each, "TargetMode").lower() != "external":
            # The ISO standard's strict variant has other addresses that end alike.
            kind = attribute(each, "Type").rpartition("/")[2].lower()
            target = attribute(each, "Target").replace("\\", "/").partition("#")[0]
            found.append(Relation(attribute(each, "Id"), kind, posixpath.join("/", folder, target)))
    return found


def of_kinds(related: Iterable[Relation], *kinds: str) -> list[str]:
    """Parts of these kinds, kind by kind, each once."""
    related = list(related)
    found = (each.part for kind in kinds for each in related if each.kind == kind)
    return [*dict.fromkeys(found)]


def part_of_kind(related: Iterable[Relation], kind: str) -> str:
    """First part of a kind; "" if there is none."""
    return next(iter(of_kinds(related, kind)), "")


def main_part(archive: Archive, usual: str) -> str:
    """Part with the document itself; the usual one if the file does not say which it is."""
    return part_of_kind(relations(archive), "officedocument") or usual


def references(attributes: Mapping[str, str]) -> list[str]:
    """Ids of relations in an element's attributes."""
    namespaces = ((key.rpartition("}")[0], value) for key, value in attributes.items())
    return [value for namespace, value in namespaces if namespace.endswith("/relationships")]


class Embedded:
    """Charts, diagrams and files that a part embeds, whose text belongs to the document."""

    def __init__(self, archive: Archive, related: Iterable[Relation]) -> None:
        self._archive, self._related = archive, {each.id: each for each in related}

    def texts(self, attributes: Mapping[str, str]) -> list[str]:
        """Labels of the figure, or the text of the file, that an element refers to."""
        found = list[str]()
        for relation in filter(None, map(self._related.get, references(attributes))):
            if relation.kind in FIGURES:
                labels = _Labels()
                events(self._archive.read(relation.part), labels)
                found += dict.fromkeys(labels.texts)
            elif relation.kind == "afchunk":
                found.append(_text_of(relation.part, self._archive.read(relation.part)))
        return found


def _text_of(part: str, data: bytes) -> str:
    """Text of a page, a web archive or a plain text; "" for others."""
    kind = "mail" if part.lower().endswith((".mht", ".mhtml")) else kind_of(part, data[:HEAD])
    if kind == "mail":
        return mail.read(data).text
    if kind == "html":
        return html_pages.text_of(html_pages.page_text(data))
    return decoded(data) if kind == "text" else ""


class _Labels:
    """Parser of a chart's or diagram's texts, without its numbers."""

    def __init__(self) -> None:
        self.texts = list[str]()
        self._line, self._numbers, self._says = list[str](), 0, False

    def start(self, tag: str, _: Mapping[str, str]) -> None:
        name = local(tag)
        self._numbers += name.startswith("num")
        self._says = name in ("t", "v", "pt") and not self._numbers

    def data(self, text: str) -> None:
        if self._says:
            self._line.append(text)

    def end(self, tag: str) -> None:
        name = local(tag)
        self._numbers -= name.startswith("num")
        self._says = False
        if name in ("p", "v", "pt"):
            if text := " ".join("".join(self._line).split()):
                self.texts.append(text)
            self._line.clear()

    def close(self) -> None:
        pass
