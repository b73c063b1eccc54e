"""Agents' clients: where each keeps its MCP servers, and how one is added to its configuration."""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError

from ..atomic_files import sync

Entry = Mapping[str, Any]
"""Command and arguments that start a server."""


@dataclass(frozen=True)
class Client:
    """A client's configuration of its user, which holds for all projects.

    Attributes
    ----------
    file : of the configuration.
    section : of the file, with servers by their names.
    fields : of each server, besides its command and arguments.
    changed : puts an entry into the text of the file: text, section, name, entry -> text. Raises
        `ValueError` if the text can't be read or changed.
    """

    file: Path
    section: str
    fields: Entry
    changed: Callable[[str, str, str, Entry], str]

    def entry(self, words: Sequence[str]) -> Entry:
        """Return the entry of a server that a command starts."""
        return {**self.fields, "command": words[0], "args": [*words[1:]]}

    def shown(self, name: str, entry: Entry) -> str:
        """Return a configuration with nothing but this server."""
        return self.changed("", self.section, name, entry)

    def install(self, name: str, entry: Entry, *, dry_run: bool = False) -> bool:
        """Add a server, or replace the one of its name; everything else stays.

        Returns False if the file already has it. A `dry_run` changes nothing.

        Raises
        ------
        InputError
            If the file is damaged, or has a form that can't be changed safely.
        """
        file = Path(os.path.realpath(self.file))  # a link, as people keep for such files, stays one
        try:
            text = file.read_bytes().decode("utf-8-sig") if file.exists() else ""
            new = self.changed(text, self.section, name, entry)
            written = new.encode()
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self.file}: {_one_line(error)}; expected a file that its client can read "
                "(`slimdex mcp --print` shows what to add by hand)"
            ) from error
        if new == text:
            return False
        if not dry_run:
            _replace(file, written)
        return True


def clients() -> dict[str, Client]:
    """Return the known clients of this user, by their names for `slimdex mcp --install`."""
    home = Path.home()
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home)
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    stdio = {"type": "stdio"}
    return {
        "claude": Client(claude / ".claude.json", "mcpServers", stdio, changed_json),
        "codex": Client(codex / "config.toml", "mcp_servers", {}, changed_toml),
        "cursor": Client(home / ".cursor" / "mcp.json", "mcpServers", {}, changed_json),
        "vscode": Client(_of_code(home) / "mcp.json", "servers", stdio, changed_json),
    }


def _of_code(home: Path) -> Path:
    """Folder of Visual Studio Code's default profile."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "Code" / "User"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData/Roaming") / "Code" / "User"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "Code" / "User"


def command_words() -> list[str]:
    """Return the absolute command that starts this slimdex from any folder.

    A client starts servers in its user's project, whose modules must not be imported: so not
    `python -m slimdex`, which looks there first.
    """
    ending = ".exe" if sys.platform == "win32" else ""
    script = Path(sysconfig.get_path("scripts"), f"slimdex{ending}")
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "slimdex"]


def server_name(names: Sequence[str]) -> str:
    """Name the server of some indexes, by the letters that all clients accept.

    >>> server_name(["my.notes"]), server_name(["news", "old"])
    ('my-notes', 'slimdex')
    """
    return re.sub(r"[^A-Za-z0-9_-]", "-", names[0]) if len(names) == 1 else "slimdex"


def changed_json(text: str, section: str, name: str, entry: Entry) -> str:
    """Put an entry into the text of a JSON object, indented as before.

    >>> print(changed_json('{"theme": "dark"}', "servers", "notes", {"command": "slimdex"}))
    {
      "theme": "dark",
      "servers": {
        "notes": {
          "command": "slimdex"
        }
      }
    }
    """
    settings = json.loads(text, object_pairs_hook=_unique) if text.strip() else {}
    if not isinstance(settings, dict) or not isinstance(settings.get(section, {}), dict):
        raise ValueError(f"no JSON object with an object {section!r}")
    servers = settings.setdefault(section, {})
    if servers.get(name) == entry:
        return text
    servers[name] = dict(entry)
    indent = re.match(r"\{\s*\n([ \t]+)", text)
    has_halves = r"\ud" in text.lower()  # of characters, which UTF-8 can't hold
    written = json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=has_halves)
    return written + ("\n" if not text or text.endswith("\n") else "")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def changed_toml(text: str, section: str, name: str, entry: Entry) -> str:
    """Put an entry into the text of a TOML file, whose other lines stay as they are.

    >>> print(changed_toml("# mine", "mcp_servers", "notes", {"command": "slimdex"}))
    # mine
    <BLANKLINE>
    [mcp_servers.notes]
    command = "slimdex"
    <BLANKLINE>
    """
    settings = tomllib.loads(text)
    servers = settings.setdefault(section, {})
    if not isinstance(servers, dict):
        raise ValueError(f"no table {section!r}")
    if servers.get(name) == entry:
        return text
    servers[name] = dict(entry)
    lines = [f"[{section}.{name}]", *(f"{key} = {_toml(value)}" for key, value in entry.items())]
    kept = _without_table(text, section, name).rstrip()
    new = "\n".join([*([kept, ""] if kept else []), *lines, ""])
    if tomllib.loads(new) != settings:
        raise ValueError(f"[{section}.{name}] is written in an unusual form")
    return new


def _without_table(text: str, section: str, name: str) -> str:
    """Remove a table and its sub-tables; correct unless a text of several lines looks like one."""
    kept, is_kept = list[str](), True
    path = rf"{section}\s*\.\s*[\"']?{re.escape(name)}[\"']?"
    for line in text.splitlines(keepends=True):
        if re.match(r"\s*\[", line):
            is_kept = re.match(rf"\s*\[\s*{path}\s*[\].]", line) is None
        if is_kept:
            kept.append(line)
    return "".join(kept)


def _toml(value: str | Sequence[str]) -> str:
    if not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")


def _one_line(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    kind = {json.JSONDecodeError: "not JSON: ", tomllib.TOMLDecodeError: "not TOML: "}
    return kind.get(type(error), "") + " ".join(str(error).split())


def _replace(file: Path, written: bytes) -> None:
    """Replace a file's bytes in one step; it keeps its permissions, a new one is the user's own."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    try:
        with open(descriptor, "wb") as new:
            new.write(written)
        if file.exists():
            os.chmod(temporary, file.stat().st_mode & 0o7777)
        sync(Path(temporary))
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync(file.parent)
