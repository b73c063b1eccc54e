"""Export: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.exporting.onnx_folder import MOST_BYTES

from ..links import Figure

FIGURES = [
    Figure(
        "1.25 minus the score",
        test="tests/retrieval/exporting/test_faiss_folder.py::check_answers",
    ),
    Figure("more than 2 GiB of weights", lambda: [MOST_BYTES / (1 << 30)]),
]
