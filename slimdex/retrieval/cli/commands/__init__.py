"""Commands of `slimdex`: functions whose dataclasses of options Typer sees as separate options."""
