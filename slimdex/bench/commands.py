"""Functions of `slimdex bench`: experiments on search. Each writes rows of results."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from slimdex.errors import InputError
from slimdex.retrieval.cli import console
from slimdex.retrieval.cli.click_commands import Answer, Argument
from slimdex.retrieval.cli.default_index import default_index
from slimdex.retrieval.cli.options import DEFAULT_INDEX, Labels
from slimdex.retrieval.cli.settings import parse_candidates
from slimdex.retrieval.encoders.opening import model_place, open_encoder
from slimdex.retrieval.sources.source import read_pairs
from slimdex.system.index_names import index_name, is_index

from .datasets import every_docstring
from .engines.encoders import missing_contenders
from .engines.engine import DOCUMENTS, VECTORS
from .engines.registry import packages_of
from .experiments import (
    code_study,
    encoding_study,
    fusion_study,
    index_study,
    peers_study,
    points_study,
    search_study,
    similarity_study,
)
from .machine import provenance
from .options import CACHE, MEASURED, Models, Out, SetOptions
from .reporting import settings_page
from .reporting.page import write_pictures, write_report
from .reporting.sections import (
    pages_with_marks,
    read_all,
    section,
    sections_with_rows,
    write_section,
)
from .rows import FOLDER
from .runner import Job, jobs, parse_libraries, possible_cap, run, run_alone, tell

SAMPLE = 300
"""Queries that the packaged set is searched for."""


def settings(
    index: Annotated[
        Path | None,
        Argument("DIR", f"The index's folder; {DEFAULT_INDEX} Without any: docstrings of Python."),
    ] = None,
    *,
    queries: Annotated[Path | None, "Queries that have labels: any source with ids."] = None,
    qrels: Labels = None,
    sample: Annotated[int, "Without labels: how many queries to make of the documents."] = SAMPLE,
    out: Annotated[Path, "FILE", "The page of charts."] = Path("bench.html"),
    against: Annotated[
        Path | None, "FILE", "An earlier run's --json, to show beside this one."
    ] = None,
) -> Answer:
    """Measure recall, MRR and nDCG against memory and latency, across k, beta, gamma and kind.

    Writes a page of charts. Nothing of the index is changed.
    """
    if (queries is None) != (qrels is None):
        raise InputError("bench: expected both --queries and --qrels, or neither")
    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"--out {out}; expected a file in an existing folder")
    # Read all input that may be invalid before measuring for minutes.
    before = None if against is None else settings_page.read_run(against)
    path = index or default_index()
    about = provenance()
    if path is None and queries is not None:
        raise InputError("bench: labels without an index; expected the folder of one")
    if path is not None and not is_index(path):
        raise InputError(f"{path}: no slimdex index there (`slimdex build SOURCE` makes one)")

    # Measure the given index, or one of docstrings.
    if path is None:
        console.note("no index: docstrings of Python are encoded and measured, in a minute or two")
        subject = points_study.docstrings_index(every_docstring(SAMPLE))
    else:
        subject = points_study.labelled_index(path, queries, qrels)
    with console.progress(), subject as opened:
        measured = points_study.measure_settings(opened, sample)
    settings_page.write_settings_page(out, measured, about, before)

    def show() -> None:
        for line in settings_page.verdict(measured):
            console.prose(line.replace("`", ""))
        console.line("")
        console.show_table(*settings_page.summary(measured).texts())
        console.line("")
        console.prose(settings_page.MEANING)
        if before is not None:
            console.line("")
            console.prose(settings_page.earlier(before))
            console.show_table(*settings_page.beside(measured, before).texts())
        console.line(f"Charts: {out}")

    return Answer(measured.as_dict() | {"machine": about}, show)


def retrieval(options: SetOptions) -> None:
    """Measure quality, memory and time of every method on sets; existing rows are kept."""

    def measure(job: Job) -> None:
        points_study.measure_grid(job.task, job.results, job.about, quick=options.quick)

    run("retrieval", measure, options)


def search(
    *, only: Annotated[str, "Stores to measure, separated by commas."] = "", options: SetOptions
) -> None:
    """Time searches from text to documents, beside other stores.

    Other stores require the extra `peers`.
    """
    names = parse_libraries("--only", only, DOCUMENTS)
    rounds = search_study.QUICK_ROUNDS if options.quick else search_study.ROUNDS

    def measure(job: Job) -> list[str]:
        return search_study.measure_search(
            job.task,
            job.open_encoder,
            names,
            job.results,
            job.about,
            folder=CACHE,
            rounds=rounds,
        )

    packages = sorted({"duckdb", "openvino", *packages_of(names)})
    run("search", measure, options, packages, queries=search_study.QUERIES, timed=True)


def peers(
    *,
    only: Annotated[str, "Peers to measure, separated by commas."] = "",
    memory_cap: Annotated[
        int | None, "MB", "Time queries again while no process may take more, on Linux."
    ] = None,
    options: SetOptions,
) -> None:
    """Measure slimdex and vector databases and libraries in turns; requires the extra `peers`."""
    names = parse_libraries("--only", only, VECTORS)
    cap = possible_cap(memory_cap)

    def measure(job: Job) -> list[str]:
        methods = peers_study.contenders(job.task.vectors.dim, len(job.task.vectors), names)
        return peers_study.measure_peers(job.task, methods, job.results, job.about, cap)

    run("peers", measure, options, packages_of(names), queries=peers_study.QUERIES)


def encode(
    data: Annotated[
        Path | None, "Folder with sts/ and retrieval/scifact; default: docstrings, without STS."
    ] = None,
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
) -> None:
    """Measure how fast texts are encoded, by slimdex and other libraries in turns."""
    texts = encoding_study.Texts.read(data)
    for model in models.split(","):
        full_name, place = model_place(model)
        for contender, reason in missing_contenders(full_name).items():
            console.note(f"{contender} is missing: {reason}")
        measure = partial(encoding_study.measure_encoders, full_name, place, texts)
        run_alone(
            "encode",
            out / f"encode-{Path(full_name).name}.jsonl",
            encoding_study.LIBRARIES,
            measure,
        )


def index(
    path: Annotated[Path, Argument("DIR", "The index's folder.")],
    queries: Annotated[
        Path | None,
        "A file of queries, as for `slimdex search`; default: documents without some of the words.",
    ] = None,
    candidates: Annotated[
        str, "Numbers of candidates, separated by commas; auto: the index's own."
    ] = "200,400,auto",
    where: Annotated[
        list[str] | None, "CONDITION", "A condition to search with; can be repeated."
    ] = None,
    out: Out = MEASURED,
) -> None:
    """Measure an index of yours: agreement and times, with conditions, and with a cold disk."""
    numbers = [*map(parse_candidates, candidates.split(","))]
    for number in numbers:
        if number is not None and number < 1:
            raise InputError(f"candidates={number}; expected 1 or more")
    texts = None if queries is None else [text for _, text in read_pairs(str(queries))]
    measure = partial(
        index_study.measure_index, path, candidates=numbers, conditions=where or (), texts=texts
    )
    run_alone("index", out / f"index-{index_name(path)}.jsonl", ["duckdb", "openvino"], measure)


def hybrid(
    *,
    names: Annotated[bool, "Also ask for documents by their ids: half of all queries."] = False,
    options: SetOptions,
) -> None:
    """Measure hybrid search: quality of each fusion and of what tune chooses; memory, time."""

    def measure(job: Job) -> None:
        fusion_study.measure_hybrid(
            job.task, job.encoder, CACHE, job.results, job.about, names=names
        )

    run("hybrid", measure, options, ["tantivy"])


def weight(*, options: SetOptions) -> None:
    """Compare constant weights of BM25 on sets left out of their choice, and values of gamma."""
    # A weight is judged on sets that did not choose it, so score all sets first.
    all_jobs = [*jobs("weight", options, ["tantivy"], queries=1000)]
    with console.progress():
        scores = [fusion_study.score_weights(job.task) for job in all_jobs]
    for job, rows in zip(all_jobs, fusion_study.weight_rows(scores), strict=True):
        job.results.replace([row | job.about for row in rows])
        tell(job.results, "weight")


def code(
    repositories: Annotated[
        list[str],
        Argument(
            "QUESTIONS.json=FOLDER",
            "Questions of semble's benchmark, and the folder of code that they are about.",
        ),
    ],
    models: Models = "all-MiniLM-L6-v2,all-MiniLM-L6-v2-fast",
    out: Out = MEASURED,
) -> None:
    """Measure which files answer questions about code, by each rule of its ranking."""
    sources = [code_study.Repository.read(named) for named in repositories]
    for model in models.split(","):
        measure = partial(code_study.measure_code, sources, model, partial(open_encoder, model))
        run_alone("code", out / f"code-{Path(model).name}.jsonl", ["tantivy", "openvino"], measure)


def sts(
    data: Annotated[Path, "Folder with sts/: its seven English sets."],
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
) -> None:
    """Measure how whitening and fewer dimensions change similarity, by several poolings."""
    sets = similarity_study.read_seven(data / "sts")
    about = provenance(["openvino"]) | {"seed": 0}
    for model in models.split(","):
        with console.progress():
            results = similarity_study.measure_model(model, sets, out, about)
        tell(results, "sts")


def report(
    results: Annotated[Path, "Folder with the rows of results."] = MEASURED,
    out: Annotated[Path, "Folder for the page and pictures."] = Path("bench-report"),
) -> None:
    """Write one self-contained page of pictures and tables, and the pictures as SVG."""
    for path in write_report(out, read_all(results)):
        console.line(str(path))


def tables() -> None:
    """Write results into README.md and docs of this checkout, between marks, and pictures."""
    with_rows = sections_with_rows(FOLDER)
    if not with_rows:
        raise InputError(f"{FOLDER}: no rows of results; expected retrieval-, peers- or others")
    for page, names in pages_with_marks(Path()).items():
        changed = []
        for name in names:
            if name not in with_rows:
                continue
            has_changed = write_section(page, name, section(name, FOLDER))
            if has_changed:
                changed.append(name)
        console.line(f"{page}: {', '.join(changed) or 'nothing'} changed")
    for picture in write_pictures(Path("docs/research"), read_all(FOLDER)):
        console.line(str(picture))
