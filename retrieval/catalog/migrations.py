"""Migrations: an older catalog becomes one of today's format, a numbered step at a time.

A new format is a number (`state.FORMAT`), a step here that takes catalogs to it, and the version
of slimdex that reads it (`NEEDS`), which every catalog carries for those that can't. A step
changes the tables, and the state's JSON in place; all steps are one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.json_text import READABLE, parsed

from .database import Database
from .passages_table import PASSAGES
from .state import FORMAT

Step = Callable[[Database, dict[str, Any]], None]

NEEDS = "0.1.0"
"""The first slimdex that reads catalogs of this format."""


def _without_views(database: Database, state: dict[str, Any]) -> None:
    """To format 2: a catalog has nothing but tables, and says which slimdex it needs."""
    database.execute("DROP VIEW IF EXISTS live")
    database.execute("ALTER TABLE state ADD COLUMN needs VARCHAR")


def _with_readings_and_origins(database: Database, state: dict[str, Any]) -> None:
    """To format 3: documents whose text was not read to its end, or that have none, are known.

    Of those there are, the ones without text are: they take no part in a search any more. The
    state tells which file made-up ids are of; of older ones nobody knows.
    """
    database.execute('CREATE TABLE partly_read("row" BIGINT, tokens BIGINT, read BIGINT)')
    if state["encoder"].get("type") != "given":
        database.execute(
            """INSERT INTO partly_read SELECT "row", 0, 0 FROM documents
            WHERE "row" < ? AND NOT regexp_matches(title || text, '\\S') ORDER BY "row" """,
            [state["encoded"]],
        )
    ((textless,),) = database.fetch("SELECT count(*) FROM partly_read")
    state["moments_outdated"] = textless > 0
    state["measured"] = state["encoded"] == 0
    state["fitted"] = None
    state["origins"] = {}


def _with_lines(database: Database, state: dict[str, Any]) -> None:
    """To format 4: documents by row have files of their own, which the next addition writes."""
    state["lines"] = None


def _with_certificate_and_fit(database: Database, state: dict[str, Any]) -> None:
    """To format 5: what was proved of the settings, and what was fitted on; of older ones, nothing.

    Both are known from the next fit on.
    """
    state["certificate"] = None
    state["fit"] = None


def _with_passages(database: Database, state: dict[str, Any]) -> None:
    """To format 6: a document may have several rows. Of older ones none is cut, nor will be."""
    database.execute(PASSAGES)
    state["passages"] = None


def _with_origins_of_documents(database: Database, state: dict[str, Any]) -> None:
    """To format 7: of each document it is known where it came from; of older ones nobody knows."""
    database.execute("ALTER TABLE documents ADD COLUMN slimdex_origin VARCHAR")


def _with_words(database: Database, state: dict[str, Any]) -> None:
    """To format 8: an index may have its documents' words; an older one has none."""
    state["words"] = None
    state["hybrid"] = None


STEPS: Mapping[int, Step] = {
    1: _without_views,
    2: _with_readings_and_origins,
    3: _with_lines,
    4: _with_certificate_and_fit,
    5: _with_passages,
    6: _with_origins_of_documents,
    7: _with_words,
}
"""The format that a step takes -> the step to the next one."""


def check_format(database: Database, name: str, *, read_only: bool) -> int:
    """The format of a catalog that can be read here, or migrated.

    Raises
    ------
    InputError
        If it is a newer slimdex's, or an older one's that is opened for reading only.
    CorruptError
        If it is no number of a format.
    """
    found = database.fetch("SELECT format FROM state")
    if len(found) != 1:
        raise CorruptError(f"its table 'state' has {len(found)} rows; expected one")
    format_ = found[0][0]
    if format_ is None or format_ < 1:
        raise CorruptError(f"format {format_}; expected 1 or more")
    if format_ > FORMAT:
        raise InputError(
            f"{name}: format {format_}, this slimdex reads up to {FORMAT}; expected slimdex "
            f"{_needed(database)}"
        )
    if format_ < FORMAT and read_only:
        raise InputError(
            f"{name}: format {format_}, of an older slimdex; expected {FORMAT} (whatever opens it "
            "for writing migrates it: `slimdex upgrade`)"
        )
    return int(format_)


def migrate(database: Database, format_: int, steps: Mapping[int, Step] = STEPS) -> None:
    """Take a catalog from its format to today's, all the way or not at all."""
    with database.transaction():
        ((body,),) = database.fetch("SELECT body FROM state")
        try:
            state = parsed(body, READABLE)
        except (TypeError, ValueError) as error:
            raise CorruptError(f"state in the catalog: {error}") from error
        for step in range(format_, FORMAT):
            steps[step](database, state)
        database.execute(
            "UPDATE state SET format = ?, needs = ?, body = ?", [FORMAT, NEEDS, json.dumps(state)]
        )


def _needed(database: Database) -> str:
    """The version that a newer catalog asks for, which formats from 2 on say."""
    columns = {row[0] for row in database.fetch("DESCRIBE state")}
    found = database.fetch("SELECT needs FROM state")[0][0] if "needs" in columns else None
    return f"{found:.20} or newer" if isinstance(found, str) else "of a newer version"
