"""Properties of office files and books: author, date and other columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..archives import Element, joined
from ..front_matter import moment


def facts(about: Sequence[Element]) -> dict[str, Any]:
    """Metadata from Dublin Core and similar fields."""
    found: dict[str, Any] = {
        "author": joined(about, "creator", "initial-creator"),
        "date": joined(about, "created", "creation-date", "date"),
        "tags": joined(about, "keywords", "keyword", "subject"),
        "description": joined(about, "description"),
        "language": joined(about, "language"),
    }
    found["date"] = moment(found["date"])
    return {column: value for column, value in found.items() if value}
