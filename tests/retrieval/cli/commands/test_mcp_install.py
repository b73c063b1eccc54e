"""`slimdex mcp --install`: a client's file gets one server more, and keeps everything else."""

from __future__ import annotations

import copy
import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.operations.agent_clients import changed_json, changed_toml, clients

from ..running import Runner

FILES = {
    "claude": ".claude.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
}
SECTIONS = {
    "claude": "mcpServers",
    "codex": "mcp_servers",
    "cursor": "mcpServers",
    "vscode": "servers",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "platform", "linux")
    return home


def read(file: Path) -> Any:
    text = file.read_text()
    return tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize("client", FILES)
def test_a_server_in_a_new_file(pets: Runner, home: Path, client: str) -> None:
    said = pets("mcp", "pets", "--install", client, "--yes", "--write", "--json").json
    file = home / FILES[client]
    assert (said["file"], said["name"], said["changed"]) == (str(file), "pets", True)
    servers = read(file)[SECTIONS[client]]
    assert servers == {"pets": said["entry"]}
    entry = servers["pets"]
    assert entry["args"][-5:] == [
        "mcp",
        f"pets={Path('pets').absolute()}",
        "--write",
        "--wait",
        "30",
    ]
    assert entry.get("type") == ("stdio" if client in ("claude", "vscode") else None)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # The command runs from any folder, also from one with a module `slimdex` of its own.
    (elsewhere := home / "elsewhere").mkdir()
    (elsewhere / "slimdex.py").write_text("raise SystemExit(9)")
    words = entry["args"][: entry["args"].index("mcp")]
    run = subprocess.run(
        [entry["command"], *words, "--version"], cwd=elsewhere, capture_output=True, check=True
    )
    assert run.stdout.startswith(b"slimdex ")
    again = pets("mcp", "pets", "--install", client, "--write", "--json")  # nothing to ask
    assert again.json["changed"] is False


def test_another_server_and_all_settings_stay(pets: Runner, home: Path) -> None:
    """So do a link to the file, its permissions and its indentation."""
    (kept := home / "dotfiles").mkdir()
    settings = {"theme": "dark", "mcpServers": {"other": {"command": "x"}}, "naïve": [1, 2.5]}
    (kept / "mcp.json").write_text(json.dumps(settings, indent=4, ensure_ascii=False))
    (kept / "mcp.json").chmod(0o640)
    (home / ".cursor").mkdir()
    (home / FILES["cursor"]).symlink_to(kept / "mcp.json")
    assert pets("mcp", "pets", "--install", "cursor", "--yes").code == 0
    assert (home / FILES["cursor"]).is_symlink()
    assert stat.S_IMODE((kept / "mcp.json").stat().st_mode) == 0o640
    text = (kept / "mcp.json").read_text()
    found = json.loads(text)
    assert found["mcpServers"].pop("pets")["command"]
    assert found == settings
    assert list(found) == list(settings)
    assert text.startswith('{\n    "theme": "dark",\n')
    assert '"naïve"' in text
    assert os.listdir(kept) == ["mcp.json"]


def test_lines_of_toml_stay(pets: Runner, home: Path) -> None:
    """A server of the same name is replaced with its sub-tables."""
    (home / ".codex").mkdir()
    before = '# mine\nmodel = "o9"  # best\n\n[mcp_servers.pets]\ncommand = "old"\n'
    before += '[mcp_servers.pets.env]\nA = "1"\n\n[mcp_servers.other]\ncommand = "x"\n'
    (home / FILES["codex"]).write_text(before)
    assert pets("mcp", "more=pets", "--install", "codex", "--yes").code == 0
    text = (home / FILES["codex"]).read_text()
    assert text.startswith(before)
    assert [*read(home / FILES["codex"])["mcp_servers"]] == ["pets", "other", "more"]
    assert pets("mcp", "pets", "--install", "codex", "--yes").code == 0
    text = (home / FILES["codex"]).read_text()
    assert text.startswith('# mine\nmodel = "o9"  # best\n\n[mcp_servers.other]\n')
    servers = read(home / FILES["codex"])["mcp_servers"]
    assert [*servers] == ["other", "more", "pets"]
    assert [*servers["pets"]] == ["command", "args"]


def test_print_changes_nothing(pets: Runner, home: Path) -> None:
    shown = pets("mcp", "pets", "--install", "codex", "--print", "--wait", "5")
    assert shown.err == f"note: {home / FILES['codex']}\n"
    args = tomllib.loads(shown.out)["mcp_servers"]["pets"]["args"]
    assert args[-2:] == ["mcp", f"pets={Path('pets').absolute()}"]  # it waits for no writing
    assert [*home.iterdir()] == []


@pytest.mark.parametrize("answer", ["y\n", "Yes\n", "n\n", "\n", ""])
def test_it_asks_first(
    pets: Runner, home: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, answer.encode())
    os.close(write_end)
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        result = pets("mcp", "pets", "--install", "claude")
    agreed = answer.lower().startswith("y")
    assert result.code == (0 if agreed else 2)
    assert (home / FILES["claude"]).exists() == agreed
    assert f'"pets={Path("pets").absolute()}"' in result.err  # what would be added
    if not agreed:
        assert "expected y, or --yes" in result.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude", '{"a": 1'),
        ("claude", '{"a": 1} // mine'),
        ("claude", '{"a": 1, "a": 2}'),
        ("claude", '{"mcpServers": []}'),
        ("claude", "[]"),
        ("claude", "[" * 100_000),
        ("claude", b"\xff\xfe{}"),
        ("codex", "a = "),
        ("codex", "mcp_servers = 3"),
        ("codex", 'mcp_servers = {other = {command = "x"}}'),
        ("codex", '[mcp_servers]\npets.command = "x"\n'),
    ],
)
def test_a_file_that_cannot_be_changed(
    pets: Runner, home: Path, client: str, text: str | bytes
) -> None:
    file = home / FILES[client]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(before := text if isinstance(text, bytes) else text.encode())
    line = pets.refuses("mcp", "pets", "--install", client, "--yes")
    assert f"{file}: " in line
    assert "--print" in line
    assert file.read_bytes() == before


def test_refusals(pets: Runner) -> None:
    assert "claude, codex, cursor, vscode" in pets.refuses("mcp", "pets", "--install", "emacs")
    assert "--http" in pets.refuses("mcp", "pets", "--install", "claude", "--http")
    assert "none" in pets.refuses("mcp", "none", "--install", "claude")


def test_places_of_other_systems(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", "/c")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/l")
    assert clients()["codex"].file == Path("/c/config.toml")
    assert clients()["claude"].file == Path("/l/.claude.json")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert clients()["vscode"].file == home / "Library/Application Support/Code/User/mcp.json"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ENTRY = {"command": 'c:\\x "y"', "args": ["naïve 😀", "\x7f\t"]}


@given(
    settings=st.dictionaries(st.text(), JSON, max_size=4),
    servers=st.dictionaries(st.text(), JSON, max_size=3),
    indent=st.sampled_from([None, 2, "\t"]),
    ascii_only=st.booleans(),
)
def test_any_json_keeps_its_values(
    settings: dict[str, Any], servers: dict[str, Any], indent: Any, ascii_only: bool
) -> None:
    settings["s"] = servers
    text = json.dumps(settings, indent=indent, ensure_ascii=ascii_only)
    expected = copy.deepcopy(settings)
    expected["s"]["n"] = ENTRY
    changed = changed_json(text, "s", "n", ENTRY)
    assert json.loads(changed) == expected
    assert changed_json(changed, "s", "n", ENTRY) == changed


@given(st.lists(st.text("[]ab.mcp_servn\"' =\\\n#", max_size=30), max_size=4))
def test_any_text_in_toml_stays(texts: list[str]) -> None:
    lines = [f"t{i} = {json.dumps(text)}" for i, text in enumerate(texts)]
    before = "\n".join(
        [
            *lines,
            "[s.m]",
            'text = """',
            *[t.replace("\\", "").replace('"', "") for t in texts],
            '"""',
        ]
    )
    settings = tomllib.loads(before)
    settings["s"]["n"] = ENTRY
    changed = changed_toml(before, "s", "n", ENTRY)
    assert tomllib.loads(changed) == settings
    assert changed.startswith(before)


def test_followed_folders_are_installed_with_it(pets: Runner, home: Path) -> None:
    Path("notes").mkdir()
    said = pets("mcp", "pets", "--sync", "notes", "--install", "cursor", "--yes", "--json").json
    own = ["--sync", f"pets={Path('notes').absolute()}", "--wait", "30"]
    assert said["entry"]["args"][-5:] == [f"pets={Path('pets').absolute()}", *own]
    line = pets.refuses("mcp", "pets", "--sync", "gone", "--install", "cursor", "--yes")
    assert "--sync gone: no such file or folder" in line
    two = ("mcp", "pets", "b=pets", "--install", "cursor", "--yes")
    assert "expected NAME=SOURCE, NAME one of pets, b" in pets.refuses(*two, "--sync", "notes")
    said = pets(*two, "--sync", "b=notes", "--json").json
    assert f"b={Path('notes').absolute()}" in said["entry"]["args"]
