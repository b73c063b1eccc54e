"""README's and docs' commands and Python run as they stand, a page in a folder of its own.

Blocks marked `console` and `python` run, in this process where they can: starting one for each
command took three quarters of the time. Those marked `sh` install, measure or need what is not
here; their commands are parsed. `test_service_pages.py` runs the page about the service.
"""

from __future__ import annotations

import gc
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click
import pytest
from mcp.server import MCPServer

from slimdex.bench import commands, datasets
from slimdex.command_line import app
from slimdex.retrieval.cli import facts
from slimdex.retrieval.cluster.ray_workers import RayWorkers
from tests.given import give
from tests.retrieval.cli.running import Runner

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCS = "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))
ALL_PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES: dict[str, tuple[list[str], str | tuple[str, ...]]] = {
    "README.md": ([" in notes.index: ", "Charts: bench.html"], "Plum cake.\n"),
    "docs/usage.md": (
        [
            "1 added, 0 changed, 1 deleted",
            "boiler was serviced",
            '"id": "n2"',
            "1 deleted, 4 left",
            "0 near-dup",
        ],
        "",
    ),
    "docs/python.md": ([], ("2 Whose woods these are I think I know. (Frost)\n2 poems\n", "sky\n")),
    "docs/skill/SKILL.md": (['"id": "boiler.md"', '"unchanged": 2', '"deleted": 1'], ""),
    "docs/passages.md": (
        ["2 documents (4 passages)", '"start": 181, "end": 292'],
        "Cellar. The wine stands on the left. ('House', 'Cellar') 2\nTrue\n",
    ),
    "docs/files.md": (["Tea", "Boiler", " in query.index: "], ""),
    "docs/sync.md": (
        ["2 added, 0 changed, 1 deleted", '"deleted": 1', "Roses"],
        "",
    ),
    "docs/export.md": (["2 documents with full vectors of 384 dimensions", "A plum cake"], "n2\n"),
    "docs/cluster.md": (
        [
            "3 documents in rooms.index",
            "3 sent, 0 removed, 3 in house_index_",
            '"removed": 1',
        ],
        "['1']\n['2']\n",
    ),
    "docs/hybrid.md": (["4 documents in parts.index", "E4031: the boiler", "(name)"], ""),
    "docs/frameworks.md": ([], ""),
    "docs/encoders.md": (["4 documents in given.index", "The cat sleeps."], ""),
    "docs/index.md": ([" in notes.index: ", "Serviced in May."], "boiler.md\n"),
    "docs/agents.md": ([" in folder.index: "], ""),
    "docs/tuning.md": (
        ["--apply gives the index", "8 documents in grown.index", "estimate=1,"],
        "",
    ),
    "docs/files-and-crashes.md": (["notes.index: rebuilt"], ""),
    "docs/research/codes.md": (["8 documents in .slimdex: "], ""),
}
"""Pages with commands: what these print, and how the output of the Python on it ends."""
GIVEN = {
    "docs/index.md": ["notes"],
    "docs/agents.md": ["notes", "notes.index"],
    "docs/hybrid.md": ["notes.index", "log.jsonl", "labels.tsv"],
    "docs/frameworks.md": ["my-notes"],
    "docs/tuning.md": ["notes.index", "log.txt", "first.jsonl", "rest.jsonl"],
    "docs/files-and-crashes.md": ["notes.index"],
    "docs/research/codes.md": ["notes.csv"],
}
"""Files of `tests/given.py` that the commands of a page need."""
ELSEWHERE = {"docs/serve.md": "tests/test_service_pages.py"}
"""Pages whose commands run by another test."""


def blocks(page: str, languages: str) -> list[tuple[str, str]]:
    """The page's blocks in these languages, joined by `|`: each its language and its text."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```({languages})\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def said_by_commands(block: str, run: Runner, monkeypatch: pytest.MonkeyPatch) -> str:
    """Output of a block's commands, of which the page may show a beginning.

    Servers for agents end at once, and `slimdex bench` and `info --health` measure less. Commands
    of other programs, and pipes, are a shell's.
    """
    monkeypatch.setattr(MCPServer, "run", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "QUICK_DOCUMENTS", 150)
    monkeypatch.setattr(facts, "HEALTH_QUERIES", 100)
    monkeypatch.setattr(commands, "every_docstring", lambda _: datasets.every_docstring(20).quick())
    said = ""
    for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        if command.startswith("slimdex "):
            command, _, shown = command.partition("\n")
            words = [os.path.expanduser(word) for word in shlex.split(command, comments=True)]
            code, out, err = run(*words[1:])
            assert code == 0, f"{command}{err}"
            assert without_scores(out).startswith(without_scores(shown)), command
            said += out
        else:
            out = printed(["sh", "-c", f"set -e\n{command}\npwd"], Path.cwd())
            *lines, folder = out.splitlines(keepends=True)
            monkeypatch.chdir(folder.strip())
            said += "".join(lines)
    return said


def without_scores(text: str) -> str:
    """Text without its scores, whose last digit depends on the processor."""
    return re.sub(r"\d\.\d{3}", "", text)


def environment() -> dict[str, str]:
    scripts = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "COLUMNS": "120"}


def printed(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_page_with_commands_is_tried() -> None:
    pages = [path.relative_to(ROOT).as_posix() for path in ALL_PAGES]
    tried = {*PAGES, *ELSEWHERE}
    assert {page for page in pages if blocks(page, "console|python")} == tried
    for page, place in ELSEWHERE.items():
        assert Path(page).name in (ROOT / place).read_text()


def test_no_other_block_has_a_command() -> None:
    for page in ALL_PAGES:
        text = page.read_text()
        fences = re.findall(r"^ *```(.*)\n((?:.*\n)*?) *```$", text, re.MULTILINE)
        known = {"console", "python", "sh", "json", "text", "bash"}  # bash: the workflow runs it
        assert {language for language, _ in fences} <= known, page
        assert "$ " not in "".join(code for language, code in fences if language == "text"), page
        assert not re.search(r"^    (\$|slimdex|make|pip) ", text, re.MULTILINE), page


RECORD = "".join(
    f'{name}() {{ printf "%s\\0" {name} "$@"; echo; }}\n'
    for name in ("slimdex", "pip", "make", "claude", "codex", "uvx")
)
"""Shell functions that print their words instead of what programs of these names do."""


def check_parsed(words: Sequence[str]) -> None:
    """Raise click's error unless these are words that slimdex takes."""
    command: click.Command = app
    while isinstance(command, click.Group):
        context = click.Context(command, **command.context_settings)
        is_named = words[:1] and words[0] in command.list_commands(context)
        name, *words = words if is_named else ["settings", *words]  # `slimdex bench` alone
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    context = click.Context(command, **command.context_settings)
    click.Command.parse_args(command, context, [*words])  # an index need not be there


def test_commands_that_need_more_than_a_page_are_valid(tmp_path: Path) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    tried = set()
    for page in [path.relative_to(ROOT).as_posix() for path in ALL_PAGES]:
        script = "".join([RECORD, "set -e\n", *(code for _, code in blocks(page, "sh"))])
        said = printed(["sh", "-c", script], tmp_path)
        for line in said.splitlines():
            program, *words = line.split("\0")[:-1]
            tried.add(program)
            match program:
                case "slimdex":
                    check_parsed(words)
                case "make":
                    assert {*words} <= targets
                case "pip":
                    assert words[0] == "install"
                case _:
                    pass  # clients of agents: the next test
    assert tried == {"slimdex", "pip", "make", "claude", "codex", "uvx"}


def test_every_client_of_agents_gets_the_same_server() -> None:
    commands = re.findall(r"^(\w+) mcp add .*-- (.*)", DOCS, re.MULTILINE)
    server = "slimdex mcp /srv/notes.index --sync /srv/notes"
    assert commands == [("codex", server), ("claude", server)]


def test_pages_import_public_names_alone() -> None:
    """From `slimdex`, or a module beside it such as `slimdex.langchain`."""
    public = {"slimdex"} | {f"slimdex.{path.stem}" for path in (ROOT / "slimdex").glob("[a-z]*.py")}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *EXAMPLES]
    found = {
        (path.name, name)
        for path in pages
        for name in re.findall(
            r"^\s*(?:from|import) (slimdex[.\w]*)", path.read_text(), re.MULTILINE
        )
    }
    assert ("python.md", "slimdex") in found
    assert {(page, name) for page, name in found if name not in public} == set()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files of `tests/given.py`."""
    folder = tmp_path_factory.mktemp("given")
    give(folder)
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # pages close no files
@pytest.mark.parametrize("page", PAGES)
def test_readme_commands_and_python(
    page: str,
    given: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in GIVEN.get(page, ()):
        copy = shutil.copytree if (given / name).is_dir() else shutil.copyfile
        copy(given / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    if "~/" in (ROOT / page).read_text():  # Ray keeps a secret of the first home it sees
        monkeypatch.setenv("HOME", str(tmp_path))
    expected, ending = PAGES[page]
    said = ""
    with ExitStack() as stack:
        if "--ray" in (ROOT / page).read_text():  # its commands share the workers of one cluster
            stack.enter_context(RayWorkers("local", 2))
        for language, block in blocks(page, "console|python"):
            if language == "console":
                said += said_by_commands(block, Runner(capsys), monkeypatch)
                continue
            capsys.readouterr()
            for _ in range(1 + ("open_or_create" in block)):  # which is there to be run again
                exec(compile(block, page, "exec"), {"__name__": "__main__"})
                out = capsys.readouterr().out
                assert out.endswith(ending)
                for shown in re.findall(r"print\(.*\)  # (.+)$", block, re.MULTILINE):
                    assert shown in out.splitlines()
    for words in expected:
        assert words in said
    if page == "docs/usage.md":
        assert re.search(r"ndcg@10 +1 +1", said)
    gc.collect()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_examples_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    endings = {
        "notes": "3 notes; the train: The train to the coast leaves at ten now.\n",
        "own_vectors": "16 bytes a vector in memory, 1024 uncompressed\n",
        "rag": "Question: What is the fine for an overdue book?\nAnswer:\n",
    }
    for example in EXAMPLES:
        runpy.run_path(str(example), run_name="__main__")
        said = capsys.readouterr().out
        assert said.endswith(endings[example.stem])
        assert ("[4] A book brought back late" in said) == (example.stem == "rag")


@pytest.mark.slow
def test_the_shell_completes(tmp_path: Path) -> None:
    """The line that the page gives each shell, and what Bash then completes."""
    page = (ROOT / "docs/usage.md").read_text()
    for shell in ("zsh", "fish", "bash"):
        source = f"_SLIMDEX_COMPLETE={shell}_source slimdex"
        assert source in page
        assert "_slimdex_completion" in printed(["sh", "-c", source], tmp_path)
    asked = (
        f'eval "$({source})"; COMP_WORDS=(slimdex search --min); COMP_CWORD=2; '
        '_slimdex_completion slimdex; echo "${COMPREPLY[@]}"'
    )
    assert printed(["bash", "-c", asked], tmp_path) == "--min-score\n"


def test_pages_link_to_what_is_there() -> None:
    """The site's test follows the links between its pages, README's is here."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
        for link in [*links, *re.findall(r'<\w+ [^>]*src(?:set)?="([^":]+)"', text)]:
            assert (page.parent / link).exists(), f"{page.name}: {link}"
        for path in re.findall(r"`((?:indexes|retrieval|bench|tests)/[\w/.]+)`", text):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
    for page, anchor in re.findall(r"\]\(([\w/.-]+\.md)#([^)]+)\)", README):
        heads = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
        anchors = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads]
        assert anchor in anchors, f"{page}#{anchor}"


def test_extras_are_installed_in_one_way() -> None:
    """From a checkout, which is what users have; and there are such extras."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    notebooks = [path.read_text() for path in (ROOT / "examples").rglob("*.ipynb")]
    pages = "\n".join([README, DOCS, *notebooks])
    named = re.findall(r"pip install\s+(\S*\[[\w,-]+\]\S*)", pages)
    assert len(named) > 8
    for words in named:
        (extras,) = re.findall(r"^'\.\[([\w,-]+)\]'", words)
        assert {*extras.split(",")} <= {*known}


def test_docs_name_every_command_and_kind() -> None:
    from slimdex.indexes.codes.kinds import KINDS

    assert all(f"`{kind}`" in DOCS for kind in KINDS)
    for name in app.import_paths:
        assert f"`{name}`" in README, name
        assert re.search(rf"slimdex {name}\b", DOCS), name


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
def test_the_tree_names_no_machine() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_symlink():  # a folder of the package, which is listed at its place
            continue
        data = (ROOT / name).read_bytes()
        assert len(data) < 1 << 20, f"{name} is over 1 MB"
        assert not re.search(rb"/(work|root|home)/\w", data), f"{name} holds a machine's path"
