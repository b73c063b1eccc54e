"""ColumnValues: what stands in the user's columns, for whoever offers conditions on them."""

from __future__ import annotations

from typing import Any

from ..sql import identifier
from .database import Database
from .document_origins import LIVE
from .metadata_columns import MetadataColumns

MOST = 20
"""Values of a column that are told one by one."""
ORDERED = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "DATE", "TIME")
"""What the names of types have in them whose values have a least and a greatest."""


class ColumnValues:
    """What a catalog's columns hold."""

    def __init__(self, database: Database, columns: MetadataColumns) -> None:
        self._database, self._columns = database, columns

    def facts(self) -> list[dict[str, Any]]:
        """Of each column its name and type; its values, if they are few, with how many documents
        have each; or the least and the greatest, of numbers, dates and times."""
        return [self._facts(name, type_) for name, type_ in self._columns.committed.items()]

    def _facts(self, name: str, type_: str) -> dict[str, Any]:
        column, found = identifier(name), {"name": name, "type": type_}
        if "[" in type_ or "(" in type_.replace("DECIMAL(", ""):  # lists and structs
            return found
        values = self._database.fetch(
            f"""SELECT {column}, count(*) FROM {LIVE} WHERE {column} IS NOT NULL
            GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST + 1}"""
        )
        if values and len(values) <= MOST:
            return found | {"values": [{"value": v, "documents": n} for v, n in values]}
        if any(word in type_ for word in ORDERED):
            ((least, greatest),) = self._database.fetch(
                f"SELECT min({column}), max({column}) FROM {LIVE}"
            )
            return found | {"least": least, "greatest": greatest}
        return found
