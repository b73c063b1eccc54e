"""Commands of `slimdex`: functions whose dataclasses of options Typer sees as separate options.

Files and folders import only what is above them: documents, index, publishing.
"""
