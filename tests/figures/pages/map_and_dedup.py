"""Maps and near-duplicates: the figures of the page."""

from __future__ import annotations

from slimdex.retrieval.mapping.document_map import MOST

from ..links import Figure

FIGURES = [Figure("more than 50,000 documents", lambda: [MOST])]
