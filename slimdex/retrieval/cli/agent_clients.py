"""Clients of agents, and the files that list the servers which they start."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import click

from slimdex.errors import InputError, check_choice
from slimdex.system.atomic_files import publish

from . import console


def change_server(client: str, name: str, words: list[str]) -> None:
    """Make a client start `slimdex mcp` with these words; without any, no longer start it.

    Raises `InputError` for an unknown client or server, and for a file that is no plain JSON.
    """
    from ..encoders.model_folder import read_json  # loads FAISS and others

    # Find the client's servers.
    path = _file_of(client)
    config = read_json(path) if path.exists() else {}
    servers = config.setdefault("servers" if client == "vscode" else "mcpServers", {})
    if not isinstance(servers, dict):
        raise InputError(f"{path}: servers {servers!r}; expected a JSON object")

    # Change ours; -P: where the client starts it, modules may have the names of ours.
    if words:
        servers[name] = {
            "command": sys.executable,
            "args": ["-P", "-m", "slimdex", "mcp", *words],
        }
    else:
        check_choice(f"{path}: server", name, servers)
        del servers[name]

    def write(new: Path) -> None:
        if path.exists():
            shutil.copy(path, new)  # for its mode: it may have keys
        new.write_text(json.dumps(config, indent=2, ensure_ascii=False), "utf-8")

    path.parent.mkdir(exist_ok=True)
    publish(path, write)
    console.line(f"{path}: {name}: {json.dumps(servers.get(name, 'removed'))}")


def _file_of(client: str) -> Path:
    """Return the file of the user, or of the project in this folder; follow links."""
    files = {
        "claude-code": ".mcp.json",
        "claude-desktop": f"{click.get_app_dir('')}/Claude/claude_desktop_config.json",
        "cursor": "~/.cursor/mcp.json",
        "gemini": "~/.gemini/settings.json",
        "vscode": ".vscode/mcp.json",
        "windsurf": "~/.codeium/windsurf/mcp_config.json",
    }
    check_choice("client", client, files)
    return Path(files[client]).expanduser().resolve()
