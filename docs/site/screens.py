"""The screens of the search page and of the bench's charts, which `make pictures` makes.

The index holds the packaged set: notes, tickets, orders and passages of Python's modules.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.mixed_folder import documents

DOCS = Path(__file__).parents[1]
SLIMDEX = (sys.executable, "-m", "slimdex")
INDEX = "home.index"
QUESTION, OF_FILES = "what to plant in spring outside", "which files are read again after a change"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 1.5,
    "is_mobile": True,
    "has_touch": True,
}
DARK = {"color_scheme": "dark"}


def with_filters(page: Page, folder: Path) -> None:
    """Ask a question, with the filters open."""
    page.fill("#query", QUESTION)
    page.click("#filters summary")


def with_files(page: Page, folder: Path) -> None:
    """Add three pages of these docs and a broken file, and ask for what they contain."""
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    files = [DOCS / "sync.md", DOCS / "hybrid.md", DOCS / "passages.md", folder / "broken.pdf"]
    page.set_input_files("#files", files)
    page.click("#send")
    page.get_by_text("4 files done").wait_for(timeout=120_000)
    page.fill("#query", OF_FILES)


def with_answers(page: Page, folder: Path) -> None:
    """Ask a question."""
    page.fill("#query", QUESTION)


def with_document(page: Page, folder: Path) -> None:
    """Ask for what the added files contain, and open the first answer."""
    page.fill("#query", OF_FILES)
    page.locator("#hits button.name").first.click()
    page.locator("#document[open]").wait_for()


SCREENS: dict[str, tuple[Callable[[Page, Path], None], dict[str, Any]]] = {
    "serve-desktop": (with_filters, DESKTOP),
    "serve-phone-search": (with_answers, PHONE),
    "serve-desktop-upload": (with_files, DESKTOP | DARK),
    "serve-phone": (with_document, PHONE | DARK),
}
"""Name of the picture -> what is done on the page, and the browser; files stay added."""


def build(folder: Path) -> None:
    """Build an index of the packaged set."""
    lines = []
    for document in documents():
        source, _, _ = document.id.partition("/")
        name = document.id.rpartition("/")[2] if source == "notes" else document.id
        lines.append(json.dumps({"id": name, "text": document.text, "folder": source}))
    (folder / "mixed.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    subprocess.run([*SLIMDEX, "build", "mixed.jsonl", "--out", INDEX], cwd=folder, check=True)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the index; yields the address of its page."""
    service = subprocess.Popen(
        [*SLIMDEX, "serve", INDEX, "--port", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert service.stdout is not None
    try:
        yield service.stdout.readline().strip()  # the address is its first line
    finally:
        service.terminate()
        service.wait()


def take(browser: Browser, address: str, name: str, folder: Path) -> None:
    """Take one picture, once the page has answered."""
    act, options = SCREENS[name]
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(address)
    page.locator("#fact-list dt").first.wait_for()  # its script runs
    act(page, folder)
    page.locator("#hits[aria-busy=false] li").first.wait_for(state="attached")
    page.wait_for_timeout(1000)  # until the costs are there
    page.screenshot(path=DOCS / f"{name}.png")
    context.close()


CHARTS = {"memory": "Recall against memory", "metrics": "Beta and gamma"}
"""Name of a picture -> heading of the chart of `slimdex bench` that it shows."""


def take_charts(browser: Browser, folder: Path) -> None:
    """Take charts of `slimdex bench` as a phone shows them, in the light and the dark mode."""
    subprocess.run([*SLIMDEX, "bench", INDEX], cwd=folder, check=True)
    for scheme in ("light", "dark"):
        page = browser.new_page(
            viewport={"width": 440, "height": 900}, device_scale_factor=2, color_scheme=scheme
        )
        page.goto((folder / "bench.html").as_uri())
        for name, heading in CHARTS.items():
            head = page.get_by_role("heading", name=heading, exact=True)
            chart = page.locator("figure", has=head)
            chart.screenshot(path=DOCS / "pictures" / f"{name}-{scheme}.png")


def main() -> None:
    """Take all screens."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("no chromium on this machine: the screens stay as they are")
    with TemporaryDirectory() as path, sync_playwright() as playwright:
        folder = Path(path)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        build(folder)
        take_charts(browser, folder)
        with served(folder) as address:
            for name in SCREENS:
                take(browser, address, name, folder)
        browser.close()


if __name__ == "__main__":
    main()
