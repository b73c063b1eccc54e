"""Build the site: write its pages to a folder, run Zensical, add what programs read.

Pages are those of `docs`, some of the repository's root, and others that are made from code.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from command_pages import bench_page, commands_page, plain
from http_page import http_page

from slimdex.retrieval.search.options import SearchOptions, options_of

ROOT = Path(__file__).parents[2]
DOCS, SETTINGS = ROOT / "docs", Path(__file__).with_name("zensical.toml")
OUTSIDE = {
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
}
"""Pages of the repository's root, and their places in the site."""
PLACES = {**OUTSIDE, "README.md": "index.md", "examples": "examples.md"}
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[#)])")
NO_PROSE = re.compile(
    r"\A---\n.*?^---$|^```.*?^```$|</?\w[^>]*>|<!--.*?-->|!\[.*?\]\(.*?\)", re.DOTALL | re.MULTILINE
)
BOLD = re.compile(r"^\*\*[^*]+\*\*\s*")
"""A word in front of a paragraph, such as **Question.**"""


def build(folder: Path) -> None:
    """Build the site in `folder/site`, from what it writes to `folder/pages`."""
    source = folder / "pages"
    site = folder / "site"
    for old in (source, site):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("*.py", "*.toml", "__pycache__"))
    shutil.copy(SETTINGS, folder)
    write_pages(source)
    (source / "llms.txt").write_text(llms(source))
    words = ["zensical", "build", "--strict", "--clean"]
    subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True)
    for page in site.rglob("*.html"):
        # The empty corners of tables are plain cells, not headings.
        page.write_text(re.sub(r"<th( [^>]*)?></th>", "<td></td>", page.read_text()))
    # Programs can read each page as Markdown, too.
    for page in source.rglob("*.md"):
        shutil.copy(page, site / page.relative_to(source))


def write_pages(source: Path) -> None:
    """Add the pages that are not in `docs`, and adapt links to the files of the site."""
    pages = {
        "reference/command-line.md": commands_page(),
        "reference/bench.md": bench_page(),
        "reference/http.md": http_page(),
        "examples.md": examples_page(),
    }
    for path in source.rglob("*.md"):
        place = path.relative_to(source).as_posix()
        pages[place] = moved(path.read_text(), f"docs/{place}", place)
    pages["reference/python.md"] += search_options()
    for name, place in OUTSIDE.items():
        pages[place] = moved((ROOT / name).read_text(), name, place)
    for place, text in pages.items():
        (source / place).parent.mkdir(exist_ok=True)
        (source / place).write_text(text)


def moved(text: str, origin: str, place: str) -> str:
    """Adapt a page's Markdown to its place in the site; `origin` is its path in the repository.

    Links to files that are part of the site are adapted, and Markdown in ``<details>`` is rendered.
    """

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), found[1]))
        if target not in PLACES and not target.startswith("docs/"):
            return found[1]
        target_place = PLACES.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(target_place, posixpath.dirname(place))

    return LINK.sub(link, text).replace("<details>", '<details markdown="1">')


def llms(source: Path) -> str:
    """List all pages for language models, as llmstxt.org describes it."""
    settings = tomllib.loads(SETTINGS.read_text())["project"]
    lines = ["# slimdex", f"> {settings['site_description']}: a command line and a Python package."]
    for section in settings["nav"]:
        for title, pages in section.items():
            if isinstance(pages, list):
                items = []
                for page in pages:
                    for name, path in page.items():
                        items.append(f"- [{name}]({path}): {summary((source / path).read_text())}")
                lines += [f"## {title}", "\n".join(items)]
    return "\n\n".join(lines) + "\n"


def summary(text: str) -> str:
    """Return the first sentence below the heading of a page, without its full stop; "" if none."""
    # The first paragraph of prose: headings, lists and tables begin with other characters.
    parts = (BOLD.sub("", part.strip()) for part in NO_PROSE.sub("", text).split("\n\n"))
    prose = [part for part in parts if re.match(r"[\w`*\[]", part)]
    first = " ".join(prose[0].split()) if prose else ""

    # Its first sentence, with links replaced by their text.
    first = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    return re.split(r"(?<=[.:]) ", first)[0].rstrip(".:")


def search_options() -> str:
    """List the options of a search, which docstrings leave out."""
    lines = ["\n## Options of a search", "Every search takes them by name."]
    for name, each in options_of(SearchOptions).items():
        lines.append(f"`{name}`, by default `{each.default!r}`\n:   {plain(each.help)}")
    return "\n\n".join(lines)


def examples_page() -> str:
    """Show the programs of the folder `examples`."""
    lines = ["# Examples", "Complete programs; each runs as it stands in a checkout."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        lines += [f"## {path.name}", f"```python\n{path.read_text().strip()}\n```"]
    return "\n\n".join(lines)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
