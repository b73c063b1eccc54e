"""Sources: read documents, queries and vectors from files, folders and packages.

`source` opens any of them; `tabular` reads tables, `files` folders and documents of other formats.
"""
