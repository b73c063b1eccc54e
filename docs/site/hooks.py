"""Hooks of MkDocs: pages generated from code, pages from outside `docs`, and files for programs."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from command_pages import bench_page, commands_page
from http_page import http_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page
from python_pages import python_page, settings_page

ROOT = Path(__file__).parents[2]
GENERATED = {
    "reference/command-line.md": commands_page,
    "reference/bench.md": bench_page,
    "reference/python.md": python_page,
    "reference/settings.md": settings_page,
    "reference/http.md": http_page,
}
OUTSIDE = {
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
}
"""Pages of the repository's root, and their places in the site."""
PLACES = {**OUTSIDE, "README.md": "index.md", "examples": "examples.md"}
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[#)])")
NO_PROSE = re.compile(
    r"^```.*?^```$|</?\w[^>]*>|<!--.*?-->|!\[.*?\]\(.*?\)", re.DOTALL | re.MULTILINE
)
ABOUT = "Semantic search in a fraction of the memory: a command line and a Python package."


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages that are not in `docs`."""
    pages = {place: write() for place, write in GENERATED.items()}
    pages |= {place: (ROOT / name).read_text() for name, place in OUTSIDE.items()}
    for place, text in (pages | {"examples.md": examples_page()}).items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to their pages."""
    place = page.file.src_uri
    origin = next((name for name, own in OUTSIDE.items() if own == place), f"docs/{place}")

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link[1]))
        if target not in PLACES and not target.startswith("docs/"):
            return link[1]
        there = PLACES.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(there, posixpath.dirname(place))

    page.markdown = LINK.sub(moved, markdown)  # before what only Python-Markdown asks for
    return page.markdown.replace("<details>", '<details markdown="1">')


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make no heading of a table's empty corner."""
    return re.sub(r"<th( [^>]*)?></th>", "<td></td>", html)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Keep the navigation for `llms.txt`."""
    config.extra["navigation"] = nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write what programs read: pages as Markdown, their list and the skill."""
    site = Path(config.site_dir)
    nav: Navigation = config.extra["navigation"]
    for page in nav.pages:
        (site / page.file.src_uri).write_text(page.markdown or "")
    (site / "llms.txt").write_text(llms(nav))
    skill = "skill/SKILL.md"  # with its front matter, which the page lacks
    (site / skill).write_text((ROOT / "docs" / skill).read_text())


def llms(nav: Navigation) -> str:
    """List all pages for language models, as llmstxt.org describes it."""
    lines = ["# slimdex", f"> {ABOUT}"]
    for section in nav.items:
        if isinstance(section, Section):
            pages = [each for each in section.children if isinstance(each, Page)]
            lines.append(f"## {section.title}")
            lines.append("\n".join(map(_line, pages)))
    return "\n\n".join(lines) + "\n"


def _line(page: Page) -> str:
    """Describe a page by the first sentence below its heading."""
    text = NO_PROSE.sub("", page.markdown or "")
    prose = [part for part in text.split("\n\n") if re.match(r"[\w`*\[]", part.strip())]
    first = " ".join(prose[0].split()) if prose else ""
    first = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    sentence = re.split(r"(?<=[.:]) ", first)[0].rstrip(".:")
    is_read_by_plugin = ":::" in (page.markdown or "")
    place = page.file.dest_uri if is_read_by_plugin else page.file.src_uri
    return f"- [{page.title}]({place}): {sentence}"


def examples_page() -> str:
    """Show the programs of the folder `examples`."""
    lines = ["# Examples", "Complete programs; each runs as it stands in a checkout."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        lines += [f"## {path.name}", f"```python\n{path.read_text().strip()}\n```"]
    return "\n\n".join(lines)
