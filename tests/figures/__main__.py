"""Lists the figures of README and docs that no source supports."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from .links import ROOT, Figure, unsupported


def pages() -> list[Path]:
    """README and the pages of docs, all of them."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def figures_of(page: Path) -> list[Figure]:
    """The links of a page, from the file of its name in `tests/figures/pages`, if there is one."""
    name = page.stem.lower().replace("-", "_")
    if not (Path(__file__).parent / "pages" / f"{name}.py").exists():
        return []
    found: list[Figure] = import_module(f"tests.figures.pages.{name}").FIGURES
    return found


if __name__ == "__main__":
    asked = [page for page in pages() if not sys.argv[1:] or page.stem in sys.argv[1:]]
    faults = [fault for page in asked for fault in unsupported(page, figures_of(page))]
    print("\n".join([*faults, f"{len(faults)} figures without support"]))
    sys.exit(bool(faults))
