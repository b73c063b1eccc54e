"""The command line: `slimdex`. Heavy modules are imported by the commands that need them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from slimdex.indexes import choices
from slimdex.indexes.progress import listening

from . import changing, exporting, measuring, pushing, reading, serving
from .asked_sources import column_names, open_sources, specs_of
from .errors import BAD_INPUT, say
from .measuring import target_asked
from .options import (
    BETA,
    CANDIDATES,
    DEFAULTS,
    FOR_THIS_SEARCH,
    GAMMA,
    HYBRID,
    KINDS,
    P99,
    PASSAGES,
    PER,
    POOLINGS,
    REDUCERS,
    STORED,
    Agreement,
    Dir,
    Disk,
    Encoding,
    Format,
    Id,
    Json,
    K,
    Model,
    Ram,
    Ray,
    RayWorkers,
    SourcesOrSql,
    Sql,
    Text,
    Title,
    Trust,
    Types,
    Vectors,
    Wait,
    Where,
    candidates_asked,
    passages_asked,
    workers_asked,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"slimdex {version('slimdex')}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Semantic search in a fraction of the memory."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the demo's index.")] = Path(
        "slimdex-demo.index"
    ),
) -> None:
    """Index the docstrings of Python's standard library, search them, and compare the memory."""
    from slimdex.indexes.settings import Settings

    from ..building import Sources
    from ..building import build as build_index
    from ..collection.collection import Collection
    from ..encoders.transformer import TransformerEncoder
    from . import answers, console
    from . import demo as demonstration

    if not _is_complete(out):
        with console.progress():
            sources = Sources.open([demonstration.SOURCE])
            collection, added = build_index(
                out, sources, TransformerEncoder, Settings(), passages="off"
            )
            collection.close()
        for line in added.notes:
            console.note(line)
    with Collection.open(out, read_only=True) as collection:
        console.line(f"{len(collection):,} docstrings in {out}")
        for query, hits in zip(
            demonstration.QUERIES, demonstration.answers(collection), strict=True
        ):
            answers.show_hits(query, hits)
        with console.progress():
            table = demonstration.comparison(collection)
        console.out.print()
        console.show_measures(table)
        console.out.print()
        console.line(f"Try your own: slimdex search {out} sort a list")


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="A new folder for the index.")],
    sources: SourcesOrSql = None,
    sql: Sql = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The encoder's model: a folder, a file of word vectors or a hub id; default: "
            "all-MiniLM-L6-v2, or none with --vectors."
        ),
    ] = None,
    pooling: Annotated[str | None, typer.Option(help=POOLINGS)] = None,
    max_length: Annotated[
        int | None,
        typer.Option(help="Most tokens to read of a text; default: the model's own, or 256."),
    ] = None,
    precision: Annotated[
        str, typer.Option(help="Precision to encode in: auto, fp32, bf16, fp16 or int8.")
    ] = "auto",
    query_prompt: Annotated[
        str | None, typer.Option(help="Text before each query; default: the model's own prompt.")
    ] = None,
    document_prompt: Annotated[
        str | None, typer.Option(help="Text before each document; default: the model's own prompt.")
    ] = None,
    trust_remote_code: Trust = False,
    k: Annotated[int | None, typer.Option(help=f"{K} Default: half.")] = None,
    beta: Annotated[float, typer.Option(help=BETA)] = DEFAULTS.beta,
    gamma: Annotated[float, typer.Option(help=GAMMA)] = DEFAULTS.gamma,
    kind: Annotated[str, typer.Option(help=KINDS)] = DEFAULTS.kind,
    candidates: Annotated[str, typer.Option(help=CANDIDATES)] = choices.AUTO,
    reducer: Annotated[str, typer.Option(help=REDUCERS)] = DEFAULTS.reducer,
    stored: Annotated[str, typer.Option(help=STORED)] = "fp16",
    passages: Annotated[str, typer.Option(metavar="TOKENS|off", help=PASSAGES)] = "auto",
    ray: Ray = None,
    workers: RayWorkers = None,
    agreement: Agreement = None,
    ram: Ram = None,
    disk: Disk = None,
    p99_ms: P99 = None,
    vectors: Vectors = None,
    text: Text = None,
    id: Id = None,
    title: Title = None,
    wait: Wait = 0,
    types: Types = None,
    encoding: Encoding = None,
    file_format: Format = None,
    as_json: Json = False,
) -> None:
    """Build an index. After an interruption, the same command goes on where it stopped."""
    from slimdex.indexes.errors import InputError
    from slimdex.indexes.settings import Settings

    from ..building import build as build_index
    from ..building import prove
    from ..commands import with_addition
    from ..encoders.base import Encoder
    from ..encoders.hub import DEFAULT_MODEL
    from ..encoders.opened import open_encoder
    from ..sources.given_vectors import GivenEncoder
    from . import console

    settings = Settings(k, beta, gamma, kind, candidates_asked(candidates), reducer)
    target = None
    if any(value is not None for value in (agreement, ram, disk, p99_ms)):
        if settings != Settings():
            raise InputError(
                "build: settings beside --agreement, --ram, --disk or --p99-ms; expected either"
            )
        target = target_asked(agreement, ram, disk, p99_ms)
    names = column_names(text, id, title, types)
    opened = open_sources(specs_of(sources, sql), names, vectors, encoding, file_format)

    def make_encoder() -> Encoder:
        if opened.vectors is not None and model is None:
            return GivenEncoder(opened.vectors.dim)
        return open_encoder(
            model or DEFAULT_MODEL,
            pooling=pooling,
            max_length=max_length,
            precision=precision,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            trust_remote_code=trust_remote_code,
        )

    with workers_asked(ray, workers) as computing, console.progress():
        collection, added = build_index(
            out,
            opened,
            make_encoder,
            settings,
            wait=wait,
            stored=stored,
            passages=passages_asked(passages),
            workers=computing,
        )
    with collection:
        with console.progress(), listening(note=console.note):
            added.notes.extend(prove(collection.core, target))
            found = with_addition(collection, added)
        console.show_index(found, as_json)


@app.command()
def search(
    index: Dir,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUERY", help="What to search for; all words are one query."),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option("--query", help="A query; can be repeated.")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="A file of queries: .txt with one per line, or any source.")
    ] = None,
    query_vector: Annotated[
        str | None,
        typer.Option(
            help="A vector in place of QUERY: a .npy file with one or more, or a JSON array."
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", help="Hits per query.")] = 10,
    where: Where = None,
    per: Annotated[str, typer.Option(help=PER)] = "document",
    min_score: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="Leave out hits that score less: a cosine, -1 to 1."),
    ] = None,
    model: Model = None,
    show: Annotated[
        list[str] | None,
        typer.Option(help="Columns to show with the text, separated by commas; can be repeated."),
    ] = None,
    candidates: Annotated[int | None, typer.Option(help=FOR_THIS_SEARCH)] = None,
    hybrid: Annotated[str, typer.Option(metavar="off|auto|rrf|WEIGHT", help=HYBRID)] = "off",
    rerank: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A cross-encoder that reorders the hits.")
    ] = None,
    rerank_depth: Annotated[
        int, typer.Option(metavar="N", help="Hits to rerank; more if -n asks for more.")
    ] = 50,
    trust_remote_code: Trust = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Find the documents nearest in meaning."""
    from ..as_json import hit_from_json
    from ..commands import Search
    from ..search.request import SearchRequest
    from ..search.reranking import CrossEncoder
    from . import answers, console
    from .performing import Index
    from .queries import Queries

    asked = Queries.asked(words, query, queries, query_vector)
    request = SearchRequest(
        asked.texts,
        asked.vectors,
        limit=n,
        where=where,
        candidates=candidates,
        per=per,
        hybrid=hybrid,
        min_score=min_score,
        rerank_depth=rerank_depth,
    )
    if rerank is not None:
        reranker = CrossEncoder(rerank, trust_remote_code=trust_remote_code)
        request = replace(request, rerank=reranker)
    excerpts = not as_json and rerank is None
    at = Index(index, wait, model=model, trust_remote_code=trust_remote_code)
    answer = at.do(Search(request.first_stage, excerpts, show or []))
    found = [[hit_from_json(hit) for hit in hits] for hits in answer["hits"]]
    chance = answer["chance_score"]
    if rerank is not None:
        chance = None
        with console.progress():
            found = request.reranked(found)
    if as_json:
        by_query = answers.as_json(request.names, asked.ids, found)
        console.print_json({"queries": by_query, "chance_score": chance})
        return
    texts = answer["excerpts"] or [None] * len(found)
    for name, hits, parts in zip(request.names, found, texts, strict=True):
        is_text = request.texts is not None
        answers.show_hits(name, hits, parts, answer["columns"], is_text=is_text)
    for said in answers.by_chance(request.names, found, chance):
        console.note(said)


app.command()(changing.add)
app.command()(changing.sync)
app.command()(changing.delete)
app.command()(changing.compact)
app.command()(changing.words)


app.command("open")(reading.open_document)
app.command()(measuring.info)
app.command()(measuring.health)


app.command()(pushing.push)


@app.command()
def verify(
    index: Dir,
    milvus: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Compare the index with what was pushed there instead."),
    ] = None,
    name: pushing.Name = None,
    token: pushing.Token = "",
    insecure: pushing.Insecure = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Check all files of an index and all counts; exit with code 2 if anything is wrong."""
    if milvus is not None:
        pushing.verify_pushed(index, milvus, name, token, insecure, as_json)
        return
    from ..collection.repair import verify as find_faults
    from . import console

    faults = find_faults(index, wait=wait)
    if as_json:
        console.print_json({"faults": faults})
    elif not faults:
        console.line(f"{index}: all files and numbers are right")
    else:
        for fault in faults:
            say(fault)
    if faults:
        raise typer.Exit(BAD_INPUT)


@app.command()
def repair(
    index: Dir,
    untrusted: Annotated[
        bool,
        typer.Option(
            "--untrusted",
            help="Rebuild all of it without reading it first: for an index that others made.",
        ),
    ] = False,
    encode: Annotated[
        bool,
        typer.Option("--encode", help="Encode documents again whose vectors are lost or damaged."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="Record a new place of the encoder's model: a folder, a file or a hub id."
        ),
    ] = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Rebuild what is derived from documents and vectors, where it is damaged."""
    from ..collection.repair import repair as mend
    from . import console

    with console.progress():
        mended = mend(index, untrusted=untrusted, encode=encode, model=model, wait=wait)
    if as_json:
        console.print_json({"mended": mended})
    else:
        for fault in mended:
            console.line(f"was: {fault}")
        console.line(f"{index}: " + ("rebuilt" if mended else "nothing to repair"))


@app.command()
def reduce(
    index: Dir,
    k: Annotated[int | None, typer.Option(help=K)] = None,
    beta: Annotated[float | None, typer.Option(help=BETA)] = None,
    gamma: Annotated[float | None, typer.Option(help=GAMMA)] = None,
    kind: Annotated[str | None, typer.Option(help=KINDS)] = None,
    candidates: Annotated[str | None, typer.Option(help=CANDIDATES)] = None,
    reducer: Annotated[str | None, typer.Option(help=REDUCERS)] = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Reduce the vectors again, without encoding. Options that are not given stay as they are."""
    from ..commands import Reduce
    from . import console
    from .performing import Index

    given = {
        "k": k,
        "beta": beta,
        "gamma": gamma,
        "kind": kind,
        "reducer": reducer,
    }
    changes: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
    if candidates is not None:
        changes["candidates"] = candidates_asked(candidates)
    console.show_index(Index(index, wait).do(Reduce(changes)), as_json)


app.command()(serving.serve)
app.command()(serving.mcp)
app.command()(measuring.tune)
app.command()(exporting.export)


@app.command()
def distill(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A transformer, or word vectors, as for `build --model`."
        ),
    ],
    out: Annotated[Path, typer.Option(help="A new folder, which `build --model` takes.")],
    dim: Annotated[
        int | None,
        typer.Option(help="Dimensions to keep, by PCA; default: 256, or all of word vectors."),
    ] = None,
    sif: Annotated[
        bool,
        typer.Option(
            "--sif",
            help="Weight words by their frequency in --corpus, and remove what the vectors of its "
            "texts have in common.",
        ),
    ] = False,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            help="Texts like those to be searched, a source as for build; can be repeated."
        ),
    ] = None,
    frequencies: Annotated[
        Path | None,
        typer.Option(
            help="A file with a word and its count per line, instead of --corpus's counts."
        ),
    ] = None,
    text: Text = None,
    trust_remote_code: Trust = False,
    as_json: Json = False,
) -> None:
    """Distill a transformer into static word vectors: less accurate, and many times as fast."""
    from slimdex.indexes.errors import InputError

    from ..atomic_files import check_new
    from ..encoders.distillation import distill as distilled
    from . import console

    if sif != bool(corpus or frequencies):
        raise InputError(
            "distill: expected --sif with --corpus or --frequencies, or none of the three"
        )
    check_new(out)
    texts = None
    if corpus:
        opened = open_sources(corpus, column_names(text, None, None, None))
        texts = (document.content for document in opened.documents())
    with console.progress():
        encoder = distilled(
            model,
            out,
            dim=dim,
            texts=texts,
            frequencies=frequencies,
            trust_remote_code=trust_remote_code,
        )
    facts = {"tokens": encoder.vectors.tokens, "dimensions": encoder.dim, "folder": str(out)}
    if as_json:
        console.print_json(facts)
    else:
        console.line(f"{facts['tokens']:,} tokens of {encoder.dim} dimensions in {out}")


app.command("eval")(measuring.evaluate)


def _is_complete(path: Path) -> bool:
    from ..collection.collection import Collection

    if not path.exists():
        return False
    with Collection.open(path, read_only=True) as collection:
        return collection.core.state.settings is not None
