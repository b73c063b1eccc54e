"""The page in a real browser: answers as one types, filters, a document, by keyboard alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .running import Running, serving, slimdex, word_vectors

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE, DESKTOP = (390, 844), (1280, 900)
TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]
HOSTILE = '<img src=x onerror="document.title=1"> it was the cat'


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("page")
    rows = [
        {"id": f"d/{i} ä", "title": f"Title {i}", "text": text, "year": 1990 + i, "kind": "ab"[i % 2]}
        for i, text in enumerate([*TEXTS, HOSTILE, *(f"rain {i}" for i in range(30))])
    ]
    (folder / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "more.jsonl").write_text('{"id": "1", "text": "snow fell"}')
    model = word_vectors(folder)
    for name in ("notes", "more"):
        source, out = folder / f"{name}.jsonl", folder / f"{name}.index"
        built = slimdex("build", source, "--out", out, "--model", model)
        assert built.returncode == 0, built
    with serving([folder / "notes.index", folder / "more.index"]) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser, running: Running) -> Iterator[Page]:
    """The page, of a desktop's width; whatever goes wrong in it, or is asked of others, fails."""
    context = browser.new_context(viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
    opened, wrong = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    opened.on(
        "request",
        lambda asked: None if asked.url.startswith(running.url) else wrong.append(asked.url),
    )
    opened.goto(running.url)
    opened.wait_for_selector("#facts:not([hidden])")
    yield opened
    context.close()
    assert wrong == []


def typed(page: Page, query: str) -> list[str]:
    """The names of the answers to what is typed."""
    with page.expect_response("**/search"):
        page.get_by_label("Search by meaning").fill(query)
    page.wait_for_function("document.querySelector('#status').textContent.includes('answers')")
    return page.locator(".hit .name").all_inner_texts()


def test_answers_come_as_one_types(page: Page) -> None:
    assert typed(page, "a dog on a rug")[0] == "Title 2"
    assert page.locator("#hits mark").first.inner_text() in ("dog", "rug")
    assert page.get_by_role("status").inner_text() == "10 answers"
    assert "encode" in page.locator("#costs").inner_text()
    assert "scan" in page.locator("#costs").inner_text()
    page.reload()  # the address has the question
    page.wait_for_selector(".hit")
    assert page.locator(".hit .name").first.inner_text() == "Title 2"


def test_texts_are_text(page: Page) -> None:
    typed(page, "it was the cat")
    assert HOSTILE in page.locator("#hits").inner_text()
    assert page.locator("#hits img").count() == 0
    assert page.title() == "slimdex"


def test_filters_are_offered_from_the_columns(page: Page) -> None:
    page.get_by_text("Filters").click()
    with page.expect_response("**/search"):
        page.get_by_label("Search by meaning").fill("the cat sat on the mat")
    with page.expect_response("**/search"):
        page.get_by_label("kind").select_option(label="b (17)")
    page.wait_for_function(
        "document.querySelector('.hit .name')?.textContent !== 'Title 0'"
    )
    numbers = [int(name.split()[1]) for name in page.locator(".hit .name").all_inner_texts()]
    assert all(number % 2 for number in numbers)
    with page.expect_response("**/search"):
        page.get_by_label("year to").fill("1991")
    page.wait_for_function("document.querySelectorAll('.hit').length === 1")
    assert page.locator(".hit .name").inner_text() == "Title 1"
    assert "(2 on)" in page.locator("#filtered").inner_text()
    with page.expect_response("**/search"):
        page.get_by_role("button", name="Clear filters").click()
    page.wait_for_function("document.querySelectorAll('.hit').length === 10")


def test_by_keyboard_alone(page: Page) -> None:
    page.keyboard.type("a dog on a rug")  # the field has the focus already
    page.wait_for_selector(".hit")
    page.wait_for_function("document.querySelector('.hit .name').textContent === 'Title 2'")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog#document[open]")
    assert page.locator("#document-title").inner_text() == "Title 2"
    assert page.locator("#document-text .passage").inner_text() == TEXTS[2]
    assert "d/2 ä" in page.locator("#document-facts").inner_text()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog#document:not([open])", state="attached")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"


def test_another_index_and_its_facts(page: Page) -> None:
    assert "34" in page.locator("#fact-list").inner_text()
    assert "as float32" in page.locator("#memory").inner_text()
    page.get_by_label("Index").select_option("more")
    page.wait_for_function("document.querySelector('#fact-list').textContent.includes('documents1')")
    with page.expect_response("**/search"):
        page.get_by_label("Search by meaning").fill("snow")
    page.wait_for_selector(".hit")
    assert page.locator(".hit .text").inner_text() == "snow fell"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_nobody_is_left_out(
    browser: Browser, running: Running, size: tuple[int, int], scheme: str, tmp_path: Path
) -> None:
    """axe-core finds no fault, and nothing is wider than the window."""
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        bypass_csp=True,  # axe is put into the page
    )
    page = context.new_page()
    page.goto(running.url)
    page.wait_for_selector("#facts:not([hidden])")
    page.get_by_text("Filters").click()
    typed(page, "a dog on a rug")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    faults = Axe().run(page)
    assert faults.violations_count == 0, faults.generate_report()
    page.locator(".hit").first.click()
    page.wait_for_selector("dialog#document[open]")
    faults = Axe().run(page)
    assert faults.violations_count == 0, faults.generate_report()
    context.close()


def test_a_token_is_asked_for(browser: Browser, running: Running, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read 0123456789abcdef\n")
    tokens.chmod(0o600)
    folder = tmp_path / "i"
    (tmp_path / "one.jsonl").write_text('{"id": "1", "text": "snow fell"}')
    model = word_vectors(tmp_path)
    built = slimdex("build", tmp_path / "one.jsonl", "--out", folder, "--model", model)
    assert built.returncode == 0, built
    with serving([folder], "--token-file", tokens) as own:
        page = browser.new_page()
        page.goto(own.url)
        page.wait_for_selector("dialog#token[open]")
        page.get_by_label("Token").fill("0123456789abcdef")
        page.keyboard.press("Enter")
        page.wait_for_selector("#facts:not([hidden])")
        page.get_by_label("Search by meaning").fill("snow")
        page.wait_for_selector(".hit")
        page.close()
