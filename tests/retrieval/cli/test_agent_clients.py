"""`slimdex mcp --install`: files of clients before, after, and undone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from .running import Runner

GITHUB = {"type": "stdio", "command": "npx", "args": ["-y", "github"], "env": {"KEY": "geheim ü"}}
BEFORE: dict[str, tuple[str, dict[str, Any]]] = {
    "claude-code": (".mcp.json", {"mcpServers": {"github": GITHUB}}),
    "claude-desktop": (
        "home/.config/Claude/claude_desktop_config.json",
        {"globalShortcut": "", "mcpServers": {}, "preferences": {"sidebarMode": "chat"}},
    ),
    "cursor": ("home/.cursor/mcp.json", {"mcpServers": {"remote": {"url": "https://a.example"}}}),
    "gemini": (
        "home/.gemini/settings.json",
        {"mcpServers": {"pets": GITHUB}, "ui": {"theme": "Dracula"}, "model": {"turns": 10}},
    ),
    "vscode": (
        ".vscode/mcp.json",
        {"inputs": [{"type": "promptString", "id": "key"}], "servers": {"github": GITHUB}},
    ),
    "windsurf": (
        "home/.codeium/windsurf/mcp_config.json",
        {"mcpServers": {"old": {"serverUrl": "https://a.example/sse", "disabled": True}}},
    ),
}
"""File of each client on Linux, and its content."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.mark.parametrize("client", BEFORE)
def test_a_server_is_added_and_taken_out(pets: Runner, tmp_path: Path, client: str) -> None:
    name, before = BEFORE[client]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(before), "utf-8")
    key = "servers" if client == "vscode" else "mcpServers"

    words = ["-P", "-m", "slimdex", "mcp", f"pets={tmp_path}/pets"]
    for more, options in (
        ([], ""),
        ([f"--sync=pets={tmp_path}/pets.jsonl", "--write"], "--write --sync pets.jsonl"),
    ):
        said = pets(f"mcp pets {options} --install {client}")
        server = {"command": sys.executable, "args": words + more}
        assert said.out == f"{path}: slimdex-pets: {json.dumps(server)}\n"
        after = before | {key: before[key] | {"slimdex-pets": server}}
        assert json.loads(path.read_text("utf-8")) == after
    assert pets(f"mcp pets --uninstall {client}").code == 0
    assert json.loads(path.read_text("utf-8")) == before
    assert str(path) in pets.refuses(f"mcp pets --uninstall {client}")


def test_a_new_file_lists_several_indexes(pets: Runner, home: Path, tmp_path: Path) -> None:
    home.mkdir()
    pets("mcp pets old=pets --sync old=pets.jsonl --install cursor")
    servers = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]
    assert servers["slimdex-pets-old"]["args"][4:] == [
        f"pets={tmp_path}/pets",
        f"old={tmp_path}/pets",
        f"--sync=old={tmp_path}/pets.jsonl",
    ]


def test_links_and_modes_stay(pets: Runner, home: Path) -> None:
    dotfile = home / "dotfiles/cursor.json"
    dotfile.parent.mkdir(parents=True)
    dotfile.write_text("{}")
    dotfile.chmod(0o600)
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(dotfile)
    pets("mcp pets --install cursor")
    assert (home / ".cursor/mcp.json").readlink() == dotfile
    assert dotfile.stat().st_mode & 0o777 == 0o600
    assert "slimdex-pets" in dotfile.read_text()


@pytest.mark.parametrize("text", ["", '{"mcpServers": {}} // mine', "[]", '{"mcpServers": []}'])
@pytest.mark.parametrize("option", ["--install", "--uninstall"])
def test_other_files_are_refused(pets: Runner, tmp_path: Path, text: str, option: str) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(text)
    assert str(path) in pets.refuses(f"mcp pets {option} claude-code")
    assert path.read_text() == text
