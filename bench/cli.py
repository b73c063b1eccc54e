"""`slimdex bench`: experiments on search, each of which leaves rows of results."""

from __future__ import annotations

import typer

from .commands import over_clusters, over_indexes, over_models, over_sets, results

COMMANDS = (
    over_sets.retrieval,
    over_sets.peers,
    over_sets.filters,
    over_sets.milvus,
    over_sets.codes,
    over_sets.stored,
    over_sets.tune,
    over_sets.search,
    over_indexes.index,
    over_sets.cold,
    over_models.encode,
    over_models.sts,
    over_models.reduction,
    over_indexes.updates,
    over_clusters.ray,
    over_indexes.serve,
    over_indexes.passages,
    over_sets.chance,
    over_sets.hybrid,
    results.report,
    results.tables,
)
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Measure quality against memory and time."""


for command in COMMANDS:
    app.command()(command)
