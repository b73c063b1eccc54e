"""Office files as their formats describe them, with parts under any name."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import quoteattr

Relations = Mapping[str, Sequence[tuple[str, str, str]]]
"""Part, or "" for the file -> (id, kind, target) of its relations."""
TRANSITIONAL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STRICT = "http://purl.oclc.org/ooxml/officeDocument/relationships"
WORD = {
    TRANSITIONAL: "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    STRICT: "http://purl.oclc.org/ooxml/wordprocessingml/main",
}


def archive(**entries: str | bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in entries.items():
            packed.writestr(name, data)
    return file.getvalue()


def opc(parts: Mapping[str, str], relations: Relations, variant: str = TRANSITIONAL) -> bytes:
    """An Office Open XML file of these parts."""
    entries = {"[Content_Types].xml": "<Types/>", **parts}
    for part, listed in relations.items():
        folder, _, base = part.rpartition("/")
        each = "".join(
            f'<Relationship Id="{id}" Type="{variant}/{kind}" Target={quoteattr(target)}/>'
            for id, kind, target in listed
        )
        entries[f"{folder}/_rels/{base}.rels".lstrip("/")] = (
            f'<Relationships xmlns="urn:r">{each}</Relationships>'
        )
    return archive(**entries)


def word_part(body: str, root: str = "document", variant: str = TRANSITIONAL) -> str:
    return (
        f'<w:{root} xmlns:w="{WORD[variant]}" xmlns="{WORD[variant]}" xmlns:r="{variant}" '
        'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
        'xmlns:mc="urn:mc" xmlns:wp="urn:wp" xmlns:c="urn:c" xmlns:dgm="urn:dgm" '
        f'xmlns:v="urn:v">{body}</w:{root}>'
    )


def docx(body: str) -> bytes:
    """A Word document with this body."""
    main = word_part(f"<w:body>{body}</w:body>")
    return opc({"word/document.xml": main}, {"": [("r", "officeDocument", "word/document.xml")]})


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def slide_part(shapes: str, root: str = "sld", variant: str = TRANSITIONAL) -> str:
    return (
        f'<p:{root} xmlns:p="urn:p" xmlns:a="urn:a" xmlns:r="{variant}" xmlns:c="urn:c" '
        f'xmlns:mc="urn:mc" xmlns:dgm="urn:dgm">{shapes}</p:{root}>'
    )


def shape(text: str, kind: str = "body") -> str:
    return (
        f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr><p:txBody><a:p>'
        f"<a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
