"""Tabular sources: rows of files, databases and dataframes."""
