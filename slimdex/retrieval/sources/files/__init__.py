"""Files: documents with sections from Markdown, HTML, PDF, office files, mail and code.

A worker process with bounded memory and time reads every file.
"""
