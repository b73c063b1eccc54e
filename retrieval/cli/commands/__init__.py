"""Commands of `slimdex`: each is a function, whose dataclasses of options Typer sees flat.

Files and folders import only what is above them: documents, index, publishing.
"""
