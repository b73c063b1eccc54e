"""Change how an index is made: `slimdex reduce` and `tune`."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.errors import InputError, check_choice
from slimdex.indexes import options as choices
from slimdex.indexes.codes import kinds

from . import console
from .click_commands import Answer
from .options import (
    Dir,
    Labels,
    OpenOptions,
    RayOptions,
    WriteOptions,
    open_index,
    user_queries,
)

if TYPE_CHECKING:
    from slimdex.indexes.settings import Settings

    from ..quality.tuning_targets import Target, Tuning

SIZE = re.compile(r"(\d+(?:\.\d+)?) *([kmgt]?)b?", re.IGNORECASE)
"""A number of bytes."""
DEFAULT_CHOICES = choices.Choices()
REDUCER_NAMES = [*choices.REDUCERS]


@dataclass(frozen=True)
class SettingsOptions:
    """Options of reducing and coding vectors; None leaves a setting unchanged."""

    k: Annotated[
        int | None,
        "Dimensions to keep of each vector: fewer take less memory and are less accurate; "
        "default of a new index: half.",
    ] = None
    beta: Annotated[
        float | None,
        "How much of the vectors' mean to subtract: 0 none, 1 all of it; default of a new "
        "index: 0, or chosen for a model not trained to compare texts.",
    ] = None
    gamma: Annotated[
        float | None,
        "How far to equalize the variances of the vectors' principal directions "
        "(whitening): 0 not at all, which keeps the model's own ranking, 1 fully; default of "
        "a new index: 0, or chosen for a model not trained to compare texts.",
    ] = None
    kind: Annotated[
        str | None,
        f"How reduced vectors are coded in memory: {', '.join(kinds.KINDS)}; auto: pq, or ivf-pq "
        f"from {kinds.LISTS_FROM:,} documents.",
    ] = DEFAULT_CHOICES.kind
    candidates: Annotated[
        str | None,
        "How many of the nearest by their codes to rescore with their full vectors, read "
        "from disk, for ten results, and proportionally more for a larger limit: more is "
        "more accurate and slower; 0: none, and no vector is read; auto: "
        f"{choices.CANDIDATES}, or more from {choices.CANDIDATES_TO:,} documents.",
    ] = choices.AUTO
    reducer: Annotated[
        str | None,
        f"How dimensions are reduced: {', '.join(REDUCER_NAMES[:-1])} or {REDUCER_NAMES[-1]}.",
    ] = DEFAULT_CHOICES.reducer
    query_encoder: Annotated[
        str | None,
        "How queries are encoded: model; or table, a token table fitted to the documents, which "
        "is much faster and slightly less accurate.",
    ] = DEFAULT_CHOICES.query_encoder

    def changes(self) -> dict[str, Any]:
        """Return the settings that are given, by their names in `Settings`.

        >>> UNCHANGED.changes(), SettingsOptions(8).changes()["candidates"]
        ({}, None)
        """
        settings = {name: value for name, value in asdict(self).items() if value is not None}
        # A number, or "auto", which `Settings` stores as None.
        if "candidates" in settings:
            settings["candidates"] = parse_candidates(settings["candidates"])
        return settings

    @property
    def has_metric(self) -> bool:
        """True if beta or gamma is given."""
        return self.beta is not None or self.gamma is not None

    def settings(self) -> Settings:
        """Return the settings of a new index."""
        from slimdex.indexes.settings import Settings  # loads numpy and FAISS

        return Settings(**self.changes())


UNCHANGED = SettingsOptions(**dict.fromkeys(each.name for each in fields(SettingsOptions)))


@dataclass(frozen=True)
class StorageOptions:
    """Options of texts and vectors in a new index."""

    vector_dtype: Annotated[
        str,
        "How full vectors are stored on disk: fp16; int8 in half the bytes, which finds as much; "
        "or int4 in 28%, which finds a little less. With a gamma near 1, both find less.",
    ] = "fp16"
    passages: Annotated[
        str,
        "TOKENS|off",
        "Cut longer texts into passages of this many tokens, each with a vector; default: "
        "as many as the encoder reads, if it has a limit; off: only the beginning of a longer "
        "text is found.",
    ] = "auto"
    no_lexical: Annotated[bool, "Leave out the lexical index: searches are by meaning alone."] = (
        False
    )

    @property
    def passage_tokens(self) -> int | str:
        """Parse a number of tokens, auto or off."""
        return int(self.passages) if self.passages.isdecimal() else self.passages


def parse_candidates(text: str) -> int | None:
    """Parse a number of candidates; None for auto.

    >>> parse_candidates("auto"), parse_candidates("400")
    (None, 400)
    """
    if text == choices.AUTO:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"candidates={text!r}; expected auto or a whole number") from error


def parse_size(text: str) -> int:
    """Parse the number of bytes of --ram.

    >>> parse_size("200MB"), parse_size("1.5 g"), parse_size("4096")
    (200000000, 1500000000, 4096)
    """
    match = SIZE.fullmatch(text)
    if match is None:
        raise InputError(f"--ram {text!r}; expected bytes, such as 200MB or 1.5GB")
    power = " kmgt".index(match[2].lower() or " ")
    return round(float(match[1]) * 1000.0**power)


@dataclass(frozen=True)
class TargetOptions:
    """Target of tuning, and limits of cost."""

    agreement: Annotated[
        float | None,
        "SHARE",
        "Agreement with exact search: the share of its ten nearest, in the index's own "
        "metric, that a search is to find; proved with 95% confidence.",
    ] = None
    ram: Annotated[str | None, "SIZE", "Most memory that the index may take: 200MB."] = None
    p99_ms: Annotated[
        float | None,
        "MS",
        "Longest that 99 of 100 searches may take on this machine, from a vector to rows.",
    ] = None

    def target(self) -> Target:
        """Return the checked target."""
        from ..quality.tuning_targets import Target  # loads the code that measures indexes

        return Target(
            Target.agreement if self.agreement is None else self.agreement,
            None if self.ram is None else parse_size(self.ram),
            self.p99_ms,
        ).checked()


def reduce(
    index: Dir,
    *,
    settings: SettingsOptions = UNCHANGED,
    lexical: Annotated[
        str | None,
        "on|off",
        "Build the lexical index (BM25), or remove it. Given alone, the vectors stay as they are.",
    ] = None,
    writing: WriteOptions,
    cluster: RayOptions,
) -> Answer:
    """Reduce the vectors again, without encoding. Options that are not given stay as they are."""
    # Loads numpy, FAISS and what writes an index.
    from ..ingest.fitting import reduce as fit_again
    from ..ingest.writer import index_lexical
    from ..quality.info import facts

    if lexical is not None:
        check_choice("lexical", lexical, ("on", "off"))
    changes = settings.changes()
    with cluster.start() as workers, console.progress():
        opened = open_index(index, writing=writing, workers=workers)
        state = opened.state
        if lexical is not None:
            index_lexical(opened, lexical == "on")
        if lexical is None or changes:
            for line in fit_again(opened, state.requested.changed(changes, state.dim)):
                console.note(line)
        report = opened.read(facts)
    return Answer(report, console.index_line(report))


def tune(
    index: Dir,
    *,
    target: TargetOptions,
    queries: Annotated[
        Path | None, "Real queries, as from a log: .txt with one per line, or any source."
    ] = None,
    qrels: Labels = None,
    apply: Annotated[bool, "Apply the settings to the index, and record what is proved."] = False,
    opening: OpenOptions,
    writing: WriteOptions,
) -> Answer:
    """Find the settings of least memory that agree with exact search, and prove that they do."""
    from ..quality.tuning import tune as tune_index  # loads numpy, FAISS and what tries settings

    wanted = target.target()
    labelled = user_queries(queries, qrels)
    opened = open_index(index, opening, writing)
    with console.progress():
        tuning = tune_index(opened, wanted, labelled, apply=apply)

    def show() -> None:
        _show_tuning(tuning)
        if tuning.chosen is not None:
            now = f"{index} has these settings now"
            console.line(now if apply else "--apply gives the index these settings")

    return Answer(tuning.as_dict(), show)


def _show_tuning(tuning: Tuning) -> None:
    """Print a row for each measured setting, then the choice and its reason."""
    if tuning.tried:
        heads = ["kind", "k", "candidates", "bytes", "agreement", "at least", "p50 ms", "p99 ms"]
        rows = []
        for tried in tuning.tried:
            candidates = tried.settings.candidates
            row = (
                tried.settings.kind,
                str(tried.settings.k),
                choices.AUTO if candidates is None else f"{candidates:,}",
                f"{tried.ram:,}",
                f"{tried.estimate:.4f}",
                f"{tried.bound:.4f}",
                f"{tried.p50_ms:.2f}",
                f"{tried.p99_ms:.2f}",
                tried.verdict,
            )
            rows.append(row)
        console.show_table([*heads, ""], rows)
        console.line("")
    for text in tuning.said:
        console.line(text)
