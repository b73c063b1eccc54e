"""PDFs of a few hundred bytes that describe gigabytes: they are refused soon, by name."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from time import monotonic

import pytest

from slimdex.retrieval.sources.files.limits import MEMORY

MIB = 1 << 20
PROGRAM = """
import json, resource, sys
from pathlib import Path
from tests.retrieval.sources.files.reading import read
found, said = read(Path(sys.argv[1]))
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
print(json.dumps([{k: d.text for k, d in found.items()}, said, peak]))
"""
"""In a process of its own, whose only child is the worker: its peak is that of no other test."""
FORM = b"/Type /XObject /Subtype /Form /BBox [0 0 300 300] /Resources << %s >>"
FONT = b"/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
SHOW = b"BT /F 9 Tf (tea) Tj ET "


def stream(entries: bytes, data: bytes) -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(data), data)


def document(content: bytes, resources: bytes, *more: bytes) -> bytes:
    """A PDF of a page with this stream; further objects begin with 5. PDFium finds them all."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R"
        b" /Resources << %s >> >>" % resources,
        content,
        *more,
    ]
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % one for one in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer\n<< /Root 1 0 R >>\n"


def calling(number: int) -> bytes:
    return b"/XObject << /X %d 0 R >>" % number


def nested() -> bytes:
    """Ten forms, each of which draws the next one ten times."""
    forms = [stream(FORM % calling(number), b"/X Do " * 10) for number in range(6, 15)]
    return document(stream(b"", b"/X Do"), calling(5), *forms, stream(FORM % FONT, SHOW))


def packed() -> bytes:
    """A page's content of 1 GB, compressed twice."""
    once, spaces = zlib.compressobj(9), b" " * MIB
    data = once.compress(spaces) + once.flush(zlib.Z_FULL_FLUSH)
    data += 1000 * (once.compress(spaces) + once.flush(zlib.Z_FULL_FLUSH)) + once.flush()
    content = stream(b"/Filter [/FlateDecode /FlateDecode]", zlib.compress(data, 9))
    return document(content, FONT)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems limit no address space")
def test_expanding_pdfs_are_refused_within_bounds(tmp_path: Path) -> None:
    for made in (nested, packed):
        bomb = made()
        assert len(bomb) < 3000
        (tmp_path / f"{made.__name__}.pdf").write_bytes(bomb)
    for name in ("after.pdf", "mild.pdf", "without.pdf"):
        (tmp_path / name).write_bytes(document(stream(b"", SHOW), FONT))
    start = monotonic()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    found, said, peak = json.loads(done.stdout)
    assert list(found.values()) == ["tea", "tea", "tea"]
    for name in ("nested.pdf", "packed.pdf"):
        assert sum(name in line for line in said) == 1
    assert peak <= MEMORY
    assert monotonic() - start < 60
