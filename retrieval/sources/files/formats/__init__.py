"""Formats: the text and parts of a file, a module for each format.

Files import only what is above them: plain_text, html_pages, markdown, restructured, source_code,
notebooks, mail, office, epub, pdf, readers.
"""
