"""Report what the public names have lost since the last tag: `make api`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import griffe

PACKAGE = "slimdex"


def last_tag() -> str | None:
    """Return the newest tag of a version before this commit; None if there is none."""
    words = ("git", "describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def losses(old: griffe.Module, new: griffe.Module) -> Iterator[str]:
    """Yield a line for each change of public names that can break a program."""
    for breakage in griffe.find_breaking_changes(_public(old), _public(new)):
        yield breakage.explain(griffe.ExplanationStyle.MARKDOWN)


def _public(package: griffe.Module) -> griffe.Module:
    """Return a module of the names that a package imports from its own modules."""
    names = griffe.Module(package.name)
    for name, member in package.members.items():
        if isinstance(member, griffe.Alias) and member.target_path.startswith(f"{package.name}."):
            names.members[name] = member
    return names


def main() -> int:
    """Print the losses; return 1 if there are any and the last tag has the same minor version."""
    tag = last_tag()
    if tag is None:
        print("no earlier version")
        return 0
    old = griffe.load_git(PACKAGE, ref=tag, resolve_aliases=True)
    new = griffe.load(PACKAGE, search_paths=["."], resolve_aliases=True)
    assert isinstance(old, griffe.Module)
    assert isinstance(new, griffe.Module)
    lines = list(losses(old, new))
    print(f"since {tag}:", *lines or ["no name has lost anything"], sep="\n")
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    is_same_minor = tag.removeprefix("v").split(".")[:2] == version.split(".")[:2]
    return int(bool(lines) and is_same_minor)


if __name__ == "__main__":
    sys.exit(main())
