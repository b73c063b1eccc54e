"""Pages in a real browser, which must report no error and ask no other host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def launched() -> Iterator[Browser]:
    """Yield a browser, or skip the test on a machine without one."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def watched(browser: Browser, allowed: str | tuple[str, ...], **options: Any) -> Iterator[Page]:
    """Yield a page; errors in it, and requests of addresses that do not begin so, fail."""
    context = browser.new_context(**options)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda to: None if to.url.startswith(allowed) else wrong.append(to.url))
    yield page
    context.close()
    assert wrong == []


def check_accessible(page: Page) -> None:
    """axe-core, with rules for structure, names and contrast, finds no fault.

    And nothing is wider than the window. axe is put into the page, past the page's own policy: the
    context needs `bypass_csp`.
    """
    from axe_playwright_python.sync_playwright import Axe

    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    found = Axe().run(page)
    assert len(found.response["passes"]) > 10  # it did look
    assert found.violations_count == 0, found.generate_report()
