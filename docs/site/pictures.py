"""The pictures of `docs/pictures`, which `make pictures` makes by running slimdex on its own notes.

A terminal's text stays text: an SVG for each of the light and the dark mode, in the reader's own
monospace font, so that it can be searched, copied and compared.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape, unescape

from tests.mixed_folder import documents

PICTURES = Path(__file__).parents[1] / "pictures"
BUILD = "slimdex build notes"
SEARCHES = (
    "slimdex search insects that make honey -n 1",
    "slimdex search our anxious pet needs training -n 1",
    "slimdex search what has to be repaired on the vehicle -n 1",
)
PROMPT = "\x1b[2m$\x1b[0m"
COLUMNS, CHARACTER, LINE = 64, 8.43, 20
"""Columns of the terminal, for a phone; a character's width and a line's height, in pixels."""
MARGIN, BAR = 18, 34
"""Space around the text, and height of the window's bar, in pixels."""
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
MODES = {
    "light": {
        "paper": "#ffffff",
        "frame": "#d0d7de",
        "bar": "#f6f8fa",
        "ink": "#1f2328",
        "2": "#59636e",
        "32": "#116329",
        "36": "#1b6d85",
    },
    "dark": {
        "paper": "#0d1117",
        "frame": "#3d444d",
        "bar": "#151b23",
        "ink": "#e6edf3",
        "2": "#9198a1",
        "32": "#7ee787",
        "36": "#76e3ea",
    },
}
"""Colours of the window, and of the styles that rich writes: dim, green and cyan."""
STYLE = re.compile(r"\x1b\[([0-9;]*)m")


def session() -> str:
    """Run the searches in a folder of notes; returns what the terminal shows of them."""
    with TemporaryDirectory() as folder:
        write_notes(Path(folder) / "notes")
        in_terminal(BUILD, folder)
        parts = [f"{PROMPT} {line}\n{in_terminal(line, folder)}" for line in SEARCHES]
        return "\n".join(parts).rstrip()


def write_notes(folder: Path) -> None:
    """Write each note of the packaged set to a file."""
    folder.mkdir()
    notes = (document for document in documents() if document.id.startswith("notes/"))
    for note in notes:
        (folder / f"{Path(note.id).name}.md").write_text(note.text, "utf-8")


def in_terminal(line: str, folder: str) -> str:
    """Run a command line of slimdex in a folder; returns what it writes to a terminal."""
    # A terminal of 24 rows: the program has one end of it, and we read from the other.
    our_end, program_end = pty.openpty()
    fcntl.ioctl(program_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))

    # These variables of this machine would change the output.
    dropped = ("COLUMNS", "NO_COLOR", "SLIMDEX_INDEX")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    words = [sys.executable, "-m", "slimdex", *shlex.split(line)[1:]]
    program = subprocess.Popen(
        words,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color"},
        stdin=program_end,
        stdout=program_end,
        stderr=subprocess.DEVNULL,
    )
    os.close(program_end)
    written = b""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(our_end, 65536):
            written += part
    os.close(our_end)
    if program.wait():
        raise RuntimeError(f"{line}: exit code {program.returncode}")
    return written.decode().replace("\r\n", "\n")


def svg(text: str, mode: str, title: str) -> str:
    """Return an SVG of a terminal window that shows a text.

    `mode` is one of `MODES`; `title` describes the picture to those who can't see it.
    """
    lines = text.split("\n")
    colour = MODES[mode]
    width = round(COLUMNS * CHARACTER + 2 * MARGIN)
    height = BAR + 2 * MARGIN + LINE * len(lines) - 6
    styles = "".join(f" .s{name} {{ fill: {c} }}" for name, c in colour.items() if name.isdigit())
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{BAR + MARGIN + LINE * i + 8}">{"".join(spans)}</text>'
        for i, spans in enumerate(_spans(lines))
        if spans
    )
    dots = "".join(f'<circle cx="{MARGIN + 18 * i}" cy="17" r="5.5"/>' for i in range(3))
    bar = f"M1 {BAR}V9.5a8.5 8.5 0 0 1 8.5-8.5h{width - 19}a8.5 8.5 0 0 1 8.5 8.5V{BAR}z"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 viewBox="0 0 {width} {height}" role="img" xml:space="preserve">
<title>{escape(title)}</title>
<style>
text {{ font: 14px {FONTS}; fill: {colour["ink"]}; white-space: pre }}
.s1 {{ font-weight: bold }}{styles}
</style>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9"
 fill="{colour["paper"]}" stroke="{colour["frame"]}"/>
<path d="{bar}" fill="{colour["bar"]}"/>
<g fill="{colour["frame"]}">{dots}</g>
{rows}
</svg>
"""


def _spans(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the styled parts of each line as SVG.

    Style codes add up, also across lines, until an empty code or 0 resets them.
    """
    style = list[str]()
    for line in lines:
        spans = []
        for i, part in enumerate(STYLE.split(line)):
            if i % 2:  # style codes between two parts of text
                codes = part.split(";")
                style = [] if codes[-1] in ("", "0") else [*style, *codes]
            elif part:
                names = " ".join(f"s{code}" for code in style)
                spans.append(
                    f'<tspan class="{names}">{escape(part)}</tspan>' if names else escape(part)
                )
        yield spans


def plain(picture: str) -> str:
    """The text of a picture of a terminal."""
    rows = re.findall(r"<text[^>]*>(.*?)</text>", picture)
    return "\n".join(unescape(re.sub(r"<[^>]*>", "", row)) for row in rows)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    shown = session()
    for mode in MODES:
        title = "A search in a terminal: questions, and the notes that answer them"
        (PICTURES / f"search-{mode}.svg").write_text(svg(shown, mode, title), "utf-8")
