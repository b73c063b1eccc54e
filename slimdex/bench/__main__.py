"""`python -m slimdex.bench`, the same as `slimdex bench`."""

from slimdex.retrieval.cli.errors import one_line_errors
from slimdex.retrieval.extras import missing_ones_told

from .cli import app

if __name__ == "__main__":
    with one_line_errors(), missing_ones_told():
        app(prog_name="slimdex bench", standalone_mode=False)
