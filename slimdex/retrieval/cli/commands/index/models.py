"""`slimdex models`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ... import console
from ...options.opening import Json

if TYPE_CHECKING:
    from slimdex.retrieval.encoders.choice.known_models import KnownModel


def models(as_json: Json = False) -> None:
    """List well-known small encoders; `--model` takes their names."""
    from slimdex.retrieval.encoders.choice.known_models import BEIR, KNOWN, MULTILINGUAL

    if as_json:
        console.print_json({name: asdict(model) for name, model in KNOWN.items()})
        return
    heads = ("model", "M weights", "languages", "dim", "tokens", "licence", "BEIR", "MTEB", "")
    rows = [
        (
            name,
            f"{model.parameters}",
            model.languages,
            f"{model.dimensions}",
            f"{model.tokens:,}",
            model.licence,
            *(_score(model, measure) for measure in (BEIR, MULTILINGUAL)),
            "needs the extra torch" if model.needs_torch else "",
        )
        for name, model in KNOWN.items()
    ]
    console.show_table(heads, rows)
    console.line("")
    console.prose(
        "BEIR and MTEB (multilingual retrieval): published nDCG@10 times 100, where verified; "
        "--json names the sources. They are downloaded from the model hub at the first use."
    )


def _score(model: KnownModel, measure: str) -> str:
    is_known = model.score is not None and model.measure == measure
    return f"{model.score:.2f}" if is_known else ""
