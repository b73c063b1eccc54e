"""Ingest: documents are cut, staged, encoded and written."""
