"""The page in a real browser: answers as one types, filters, a document, by keyboard alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from slimdex.retrieval.server.column_facts import folder_counts
from tests.browsing import DESKTOP, PHONE, check_accessible, launched, watched
from tests.encoders import make_tiny_bert

from ..running import Running, built, serving, serving_here

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

pytestmark = pytest.mark.slow

TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]
HOSTILE = '<img src=x onerror="document.title=1"> it was the cat'
PARAGRAPHS = [f"{word} fell on monday. " * 200 for word in ("stocks", "rain", "snow")]
FOLDERS = ["", "a", "a/b", "a/b", "a/b/c", "a0", "a/c d", "x", *(f"x/{i}" for i in range(60))]
TOKEN = "0123456789abcdef"
CODE = "def cat():\n    # https://example.org/code\n    return 'the cat'\n"
LINKS = (
    "The cat (https://example.org/cat_(pet)), its mat https://example.org/a?b=cat&c=1. "
    "javascript:alert(1) [the cat](https://example.org/md)"
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("page")
    notes: list[dict[str, Any]] = [
        {
            "id": f"d/{i} ä",
            "title": f"Title {i}",
            "text": text,
            "year": 1990 + i,
            "kind": "ab"[i % 2],
            "at": datetime(1990 + i, 5, 1, 12),
        }
        for i, text in enumerate([*TEXTS, HOSTILE, *(f"rain {i}" for i in range(30))])
    ]
    long: dict[str, Any] = {
        "id": "long",
        "text": "𝄞\n\n" + "\n\n".join(PARAGRAPHS),
        'of "x"': "it's",
    }
    files: list[dict[str, Any]] = [
        {
            "id": f"{folder}/{i}.md" if folder else f"{i}.md",
            "title": f"Rain {i}",
            "text": f"rain {i}\n\nThe cat sat, rain fell.",
            "path": f"/srv/{i}.md",
            "folder": folder,
            "kind": "markdown",
            "tag": ["new", None][i % 2],
        }
        for i, folder in enumerate(FOLDERS)
    ]
    mixed: list[dict[str, Any]] = [
        {"id": "a.py", "text": CODE, "kind": "code", "tags": ["pet", "code"]},
        {"id": "links", "text": LINKS, "url": "https://example.org/cat", "tags": ["pet"]},
        {"id": "rug", "text": "a rug", "tags": ["it's <b>"], "sizes": [1, 2]},
    ]
    rows = {
        "notes": notes,
        "more": [long, {"id": "2", "text": "it was"}],
        "files": files,
        "mixed": mixed,
    }
    indexes = [built(folder, own, name, passages=100) for name, own in rows.items()]
    model = make_tiny_bert(folder / "cross", labels=1)
    with serving_here(*indexes, "--rerank", model) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from launched()


@pytest.fixture
def page(browser: Browser, running: Running) -> Iterator[Page]:
    with watched(browser, running.url, **DESKTOP) as opened:
        opened.goto(running.url)
        opened.wait_for_selector("#facts:not([hidden])")
        yield opened


@contextmanager
def answered(page: Page) -> Iterator[None]:
    """What is done here asks the service; afterwards its answer is shown."""
    with page.expect_response("**/search"):
        yield
    page.wait_for_selector("#hits[aria-busy=false]", state="attached")


def typed(page: Page, query: str) -> list[str]:
    """The names of the answers to what is typed, not to what was asked before."""
    with page.expect_response(lambda answer: asks(answer.request, query)):
        page.get_by_label("Search", exact=True).fill(query)
    page.wait_for_selector("#hits[aria-busy=false]", state="attached")
    return names(page)


def asks(request: Request, query: str) -> bool:
    return request.url.endswith("/search") and json.loads(request.post_data or "")["query"] == query


def names(page: Page) -> list[str]:
    return page.locator(".hit .name").all_inner_texts()


def test_answers_appear_while_typing(page: Page) -> None:
    assert typed(page, "a dog on a rug")[0] == "Title 2"
    assert page.locator("#status").inner_text() == "10 answers"
    costs = page.locator("#costs").inner_text()
    assert all(name in costs for name in ("encode", "scan", "rescore", "fetch"))
    page.reload()  # the address has the question
    page.wait_for_selector(".hit")
    assert names(page)[0] == "Title 2"
    page.get_by_label("Search", exact=True).fill("")
    page.wait_for_selector(".hit", state="detached")
    assert page.locator("#status").inner_text() == ""
    assert not page.locator("#costs").is_visible()


def test_answers_have_names_marked_words_and_plain_text(page: Page) -> None:
    assert {*typed(page, "17")[:2]} == {"Title 17", "Title 21"}  # the text of 21 is "rain 17"
    assert "found by its words" in page.locator(".hit .place").first.inner_text()
    typed(page, "The cats SAT on a dog and rugs")
    assert {*page.locator("#hits mark").all_inner_texts()} == {"cat", "sat", "dog", "rug"}
    typed(page, "it was the cat")
    assert HOSTILE in page.locator("#hits").inner_text()
    assert page.locator("#hits img").count() == 0
    assert page.title() == "slimdex"


def test_filters_are_offered_from_the_columns(page: Page) -> None:
    page.locator("summary").click()
    assert typed(page, TEXTS[0])[0] == "Title 0"
    with answered(page):
        page.get_by_label("kind").select_option(label="b (17)")
    assert len(names(page)) == 10
    assert all(int(name.split()[1]) % 2 for name in names(page))
    assert "1990 – 2023" in page.get_by_role("group", name="year").inner_text()
    with answered(page):
        page.get_by_label("year to").fill("1991")
    assert names(page) == ["Title 1"]
    assert page.locator("#status").inner_text() == "1 answer"
    assert page.locator("summary").inner_text() == "Filters (2 on)"
    with answered(page):
        page.get_by_label("year from").fill("2050")
    assert page.locator("#status").inner_text() == "Nothing found with these filters."
    with answered(page):
        page.get_by_role("button", name="Clear filters").click()
    assert len(names(page)) == 10
    assert page.locator("summary").inner_text() == "Filters"
    with answered(page):
        page.get_by_label("at to").fill("1991-05-01")  # until that day's end
    assert {*names(page)} == {"Title 0", "Title 1"}


def test_the_address_holds_the_whole_question(page: Page) -> None:
    """Another browser, back and forward ask the same."""
    page.locator("summary").click()
    typed(page, "it was rain 5 &=?")
    with answered(page):
        page.get_by_label("kind").select_option(label="b (17)")
    with answered(page):
        page.get_by_label("year from").fill("2000")
    with answered(page):
        page.get_by_role("checkbox").check()
    with answered(page):
        page.get_by_role("button", name="More answers").click()
    asked, found = page.url, names(page)
    query = parse_qs(urlsplit(asked).query)
    assert query == {
        "index": ["notes"], "q": ["it was rain 5 &=?"], "where.kind": ["b"],
        "from.year": ["2000"], "rerank": ["1"], "limit": ["20"],
    }  # fmt: skip
    assert len(found) == 12
    assert "second model's score" in page.locator(".hit .place").first.inner_text()
    assert "rerank" in page.locator("#costs").inner_text()

    with answered(page):
        page.goto(asked)
    assert names(page) == found
    assert page.locator("summary").inner_text() == "Filters (2 on)"
    assert page.url == asked

    typed(page, "stocks fell")
    assert "limit" not in page.url
    with answered(page):
        page.go_back()
    assert (page.url, names(page)) == (asked, found)
    assert page.get_by_label("Search", exact=True).input_value() == "it was rain 5 &=?"
    with answered(page):
        page.go_forward()
    assert page.get_by_label("Search", exact=True).input_value() == "stocks fell"

    assert not page.locator("#notice").is_visible()

    page.goto(asked.replace("limit=20", "where.gone=1&limit=x"))  # what has gone is left out
    page.wait_for_selector(".hit")
    assert page.url == asked.replace("&limit=20", "")
    assert page.locator("#notice").inner_text().endswith(": where.gone=1, limit=x")


def test_folders_are_filtered_with_those_below(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/?index=files&q=rain")
    page.wait_for_selector(".hit")
    page.locator("summary").click()
    assert page.locator("#columns select").count() == 2  # nor one kind, nor a path for each
    assert page.get_by_label("tag").is_visible()
    offered = page.get_by_label("folder").locator("option").all_inner_texts()
    below = folder_counts(Counter(FOLDERS))
    assert offered == ["any", *(f"{folder or 'in no folder'} ({n})" for folder, n in below)]
    for folder, count in (("a", 5), ("a/b", 3), ("a/b/c", 1), ("a/c d", 1), ("a0", 1), ("b", 0)):
        page.goto(f"{running.url}/?index=files&q=rain&limit=100&where.folder={folder}")
        page.wait_for_selector("#status:not(:empty)")
        inside = [
            f"Rain {i}" for i, own in enumerate(FOLDERS) if f"{own}/".startswith(f"{folder}/")
        ]
        assert len(inside) == count
        assert sorted(names(page)) == inside
        assert not page.locator("#notice").is_visible()
        if folder == "a0":  # the title is shown once
            assert page.locator(".hit").inner_text().lower().count("rain 5") == 1
            assert page.locator(".hit .text").inner_text() == "The cat sat, rain fell."


def test_by_keyboard_alone(page: Page) -> None:
    page.keyboard.type("a dog on a rug")  # the field has the focus already
    page.wait_for_selector(".hit:first-child .name:text-is('Title 2')")
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("#document[open]")
    assert page.locator("#document-title").inner_text() == "Title 2"
    assert page.locator("#document-text .passage").inner_text() == TEXTS[2]
    assert "d/2 ä" in page.locator("#document-facts").inner_text()
    page.keyboard.press("Escape")
    page.wait_for_selector(".hit .name:text-is('Title 2'):focus")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # over the box of the second model
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "year from"
    with answered(page):
        page.keyboard.type("2020")
    page.wait_for_selector("#status:text-is('4 answers')")


def test_a_late_answer_behind_a_document_leaves_the_focus_to_its_hit(page: Page) -> None:
    page.keyboard.type("a dog on a rug")
    page.wait_for_selector(".hit:first-child .name:text-is('Title 2')")
    held: list[Route] = []
    page.route("**/search", lambda route: held.append(route))
    with page.expect_request("**/search"):
        page.keyboard.type("!")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#document[open]")
    with answered(page):
        held[-1].continue_()
    page.keyboard.press("Escape")
    page.wait_for_selector(".hit .name:text-is('Title 2'):focus")


def test_a_document_is_opened_at_the_passage(page: Page) -> None:
    page.goto(f"{page.url.split('?')[0]}?index=more&q=rain+falls+mondays")
    page.wait_for_selector(".hit")
    page.locator("summary").click()
    with answered(page):
        page.get_by_label('of "x"').select_option(label="it's (1)")
    assert names(page) == ["long"]
    page.locator(".hit").click(position={"x": 300, "y": 80})  # all of an answer opens it
    page.wait_for_selector("#document[open]")
    whole, passage = page.locator("#document-text"), page.locator("#document-text .passage")
    assert whole.inner_text().split() == ["𝄞", *"".join(PARAGRAPHS).split()]
    assert "rain fell" in passage.inner_text()
    assert not {"stocks", "snow"} & {*passage.inner_text().split()}
    assert {*passage.locator("mark").all_inner_texts()} == {"rain", "monday"}
    top = passage.bounding_box()
    assert top is not None
    assert 0 < top["y"] < 300
    page.get_by_role("button", name="Close").click()
    assert not whole.is_visible()


def opened(page: Page) -> str:
    page.wait_for_selector("#document[open]")
    return page.locator("#document-title").inner_text()


def closed(page: Page) -> None:
    page.wait_for_selector("#document:not([open])", state="attached")


def test_back_and_forward_close_and_open_a_document(page: Page) -> None:
    question = page.get_by_label("Search", exact=True)
    typed(page, "a dog on a rug")
    asked, found = page.url, names(page)
    page.locator(".hit .name").first.click()
    assert opened(page) == "Title 2"
    assert parse_qs(urlsplit(page.url).query)["doc"] == ["d/2 ä"]
    page.go_back()
    closed(page)
    assert (page.url, names(page), question.input_value()) == (asked, found, "a dog on a rug")
    page.go_forward()
    assert opened(page) == "Title 2"
    assert page.locator("#document-text .passage").inner_text() == TEXTS[2]
    page.keyboard.press("Escape")
    closed(page)
    page.wait_for_url(asked)
    assert page.evaluate("document.activeElement.textContent") == "Title 2"
    typed(page, "stocks fell")
    page.locator(".hit .name").first.click()
    assert opened(page) == "Title 1"
    page.go_back()
    closed(page)
    with answered(page):
        page.go_back()
    assert (page.url, names(page), question.input_value()) == (asked, found, "a dog on a rug")


def test_a_document_has_an_address(page: Page, running: Running) -> None:
    typed(page, "a dog on a rug")
    link = page.locator(".hit .name").first.get_attribute("href")
    alone = "?index=notes&doc=d%2F2+%C3%A4"
    for address, passages in ((link, 1), (alone, 0)):
        page.goto(f"{running.url}/{address}")
        assert opened(page) == "Title 2"
        assert page.locator("#document-text .passage").count() == passages
        assert page.locator("#document-text").inner_text().strip() == TEXTS[2]
        assert page.url == f"{running.url}/{address}"
        page.reload()
        assert opened(page) == "Title 2"
        page.get_by_role("button", name="Close").click()
        closed(page)
        assert "doc" not in parse_qs(urlsplit(page.url).query)
    page.goto(f"{running.url}/?index=more&doc=2&q=rain")  # none of the nearest has it
    assert opened(page) == "2"


def test_a_link_to_a_document_that_has_gone_says_so(browser: Browser, running: Running) -> None:
    page = browser.new_page()
    page.goto(f"{running.url}/?index=notes&q=dog&doc=gone")
    page.wait_for_selector("#problem:not([hidden])")
    assert "gone" in page.locator("#problem").inner_text()
    assert page.url == f"{running.url}/?index=notes&q=dog"
    assert names(page)
    page.close()


def test_links_are_links_and_code_is_code(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/?index=mixed&q=the+cat")
    page.wait_for_selector(".hit")
    targets = [f"https://example.org/{end}" for end in ("cat_(pet)", "a?b=cat&c=1", "md")]
    hit = page.locator(".hit", has_text="javascript:")
    for shown in (hit, page.locator("#document-text")):
        links = [each.get_attribute("href") for each in shown.locator("a:not(.name)").all()]
        assert links == targets
        assert " ".join(LINKS.split()) in " ".join(shown.inner_text().split())
        assert {*shown.locator("mark").all_inner_texts()} >= {"cat"}
        assert page.locator("#document-facts a").count() == (shown is not hit)
        if shown is hit:
            hit.locator(".name").click()
            assert opened(page) == "links"
            page.wait_for_selector("#document-facts a")
    assert "monospace" not in font(page, "#document-text")
    page.goto(f"{running.url}/?index=mixed&q=the+cat&doc=a.py")
    assert opened(page) == "a.py"
    assert "monospace" in font(page, "#document-text")
    assert page.locator("#document-text").inner_text().rstrip() == CODE.rstrip()
    assert "monospace" in font(page, ".hit .code")
    assert "pet, code" in page.locator("#document-facts").inner_text()


def font(page: Page, selector: str) -> str:
    found: str = page.locator(selector).evaluate("node => getComputedStyle(node).fontFamily")
    return found


def test_items_of_lists_are_filters(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/?index=mixed&q=the+cat+on+a+rug")
    page.wait_for_selector(".hit")
    page.locator("summary").click()
    offered = page.get_by_label("tags").locator("option").all_inner_texts()
    assert offered == ["any", "pet (2)", "code (1)", "it's <b> (1)"]
    for label, found in (("pet (2)", {"a.py", "links"}), ("it's <b> (1)", {"rug"})):
        with answered(page):
            page.get_by_label("tags").select_option(label=label)
        assert {*names(page)} == found
    with answered(page):
        page.reload()
    assert names(page) == ["rug"]
    with answered(page):
        page.get_by_label("sizes").select_option(label="2 (1)")
    assert names(page) == ["rug"]
    page.goto(f"{running.url}/?index=mixed&q=cat&where.tags=rare&where.sizes=7")
    page.wait_for_selector("#status:not(:empty)")
    assert page.locator("#status").inner_text() == "Nothing found with these filters."


def test_errors_are_shown(browser: Browser, running: Running) -> None:
    page = browser.new_page()
    page.goto(running.url)
    page.wait_for_selector("#facts:not([hidden])")
    typed(page, "a dog")
    alert = page.locator("#problem")
    page.route("**/search", lambda route: route.fulfill(status=503, json={"error": "many wait"}))
    assert typed(page, "a cat") == []  # none that answered something else
    assert alert.inner_text() == "many wait"
    page.route("**/search", lambda route: route.fulfill(status=502, body="<html>"))
    typed(page, "a rug")
    assert alert.inner_text() == "The service answers with 502."
    page.route("**/search", lambda route: route.abort())
    page.get_by_label("Search", exact=True).fill("a mat")
    page.wait_for_selector("#problem:text-is('The service does not answer.')")
    page.unroute("**/search")
    assert typed(page, "a dog on a rug")[0] == "Title 2"
    assert not alert.is_visible()
    page.close()


@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")], ids=["phone", "desktop"]
)
def test_the_page_is_accessible(
    browser: Browser, running: Running, size: dict[str, Any], scheme: Any
) -> None:
    context = browser.new_context(**size, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(running.url)
    page.wait_for_selector("#facts:not([hidden])")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.locator(".keys").is_visible() == (size is DESKTOP)
    page.locator("summary").click()
    typed(page, "a dog on a rug")
    check_accessible(page)
    page.locator(".hit .name").first.click()
    page.wait_for_selector("#document[open]")
    check_accessible(page)
    context.close()


def test_a_token_is_asked_for_and_files_are_added(browser: Browser, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {TOKEN}\nwrite {TOKEN[::-1]}\n")
    tokens.chmod(0o600)
    index = built(tmp_path, [{"id": "1", "text": "snow fell"}])
    note = tmp_path / "rug <b>.md"
    note.write_text("# Pets\n\nA dog slept on the rug.\n")
    table = tmp_path / "rows.csv"
    table.write_text("id,text,kind\n7,stocks fell,money\n8,it was monday,days\n")
    empty = tmp_path / "odd.xyz"
    empty.write_bytes(bytes(range(256)))
    with serving([index], "--token-file", tokens) as own:
        page = browser.new_context(bypass_csp=True).new_page()
        page.goto(own.url)
        page.wait_for_selector("#token[open]")
        field = page.get_by_role("textbox", name="Token")
        assert page.locator("#token-problem").inner_text() == ""
        field.fill(f"{TOKEN}0")
        page.keyboard.press("Enter")
        page.wait_for_selector("#token-problem:not(:empty)")
        assert field.input_value() == ""
        check_accessible(page)
        page.keyboard.press("Escape")
        page.wait_for_selector("#problem:not([hidden])")
        page.reload()
        field.fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector("#facts:not([hidden])")
        assert typed(page, "snow") == ["1"]
        page.reload()  # it is not asked for again
        page.wait_for_selector(".hit")
        page.wait_for_selector("#reading:not([hidden])")
        assert not page.locator("#adding").is_visible()
        page.get_by_role("button", name="Use another token").click()
        field.fill(TOKEN[::-1])
        page.keyboard.press("Enter")
        page.wait_for_selector("#adding:not([hidden])")
        assert not page.locator("#reading").is_visible()
        page.locator("#files").set_input_files([note, table, empty])
        page.get_by_role("button", name="Add to the index").click()
        page.wait_for_selector("#upload-status:text-is('3 files done')")
        said = page.locator("#uploaded li").all_inner_texts()
        assert said[:2] == ["rug <b>.md: 1 document", "rows.csv: 2 documents"]
        assert said[2].startswith("odd.xyz: an unknown kind of file")
        page.wait_for_selector("#fact-list dd:text-is('4')")
        assert typed(page, "a dog on a rug")[0] == "Pets"
        page.locator("summary").click()
        assert page.get_by_label("kind").is_visible()
        assert page.get_by_label("folder").locator(":checked").inner_text() == "any"
        with answered(page):
            page.get_by_label("folder").select_option(label="in no folder (1)")
        assert names(page) == ["Pets"]
        with answered(page):
            page.reload()
        assert names(page) == ["Pets"]
        check_accessible(page)
        page.locator("#files").set_input_files(note)
        page.get_by_role("button", name="Add to the index").click()
        page.wait_for_selector("#uploaded li:text-is('rug <b>.md: unchanged')")
        page.context.close()


def test_the_page_runs_only_its_own_scripts(running: Running) -> None:
    for path in ("/", "/page/page.js", "/page/page.css"):
        policy = running.client.get(path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
    for path in ("/page/..%2froutes_page.py", "/page/other.js", "/docs/other.js"):
        assert running.client.get(path).status_code == 404


def test_the_api_can_be_tried_out(browser: Browser, running: Running) -> None:
    with watched(browser, running.url, **DESKTOP) as page:
        page.goto(f"{running.url}/docs")
        page.locator("#operations-search-indexes").click()
        page.get_by_role("button", name="Try it out").click()
        with page.expect_response("**/indexes") as asked:
            page.get_by_role("button", name="Execute").click()
        assert [one["name"] for one in asked.value.json()["indexes"]] == [
            "notes",
            "more",
            "files",
            "mixed",
        ]
