"""`slimdex bench functions`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slimdex.indexes.errors import InputError

from ..options import Models, Out
from ..rows import MEASURED


def functions(
    *,
    trees: Annotated[
        str, "Folders of Python, C or JavaScript, separated by commas; stdlib: Python's own."
    ] = "stdlib",
    files: Annotated[int, "Most files of a tree, chosen at random."] = 60,
    questions: Annotated[int, "Most questions of a tree, chosen at random."] = 400,
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
) -> None:
    """Measure how many functions are found by their descriptions, with and without grammars."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.encoders.opening import open_encoder
    from slimdex.retrieval.extras import require

    from ..machine import provenance
    from ..rows import ResultsFile
    from ..runner import tell
    from .code_study import measure_code
    from .trees import read_tree

    for option, value in (("--files", files), ("--questions", questions)):
        if value < 1:
            raise InputError(f"{option} {value}; expected 1 or more")
    require("bench functions", "code")
    read = [read_tree(name, files, questions) for name in trees.split(",")]
    about = provenance(["tree-sitter", "openvino", "faiss-cpu"]) | {"seed": 0}
    for spec in models.split(","):
        encoder, model = open_encoder(spec), Path(spec).name
        for tree in read:
            results = ResultsFile(out / f"functions-{tree.name}-{model}.jsonl")
            with console.progress():
                measure_code(tree, encoder, model, results, about)
            tell(results)
