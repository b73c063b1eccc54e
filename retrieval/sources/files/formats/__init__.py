"""Formats: the text and parts of a file, a module for each format.

Files and folders import only what is above them: plain_text, html_pages, markdown, restructured,
definitions, source_code, notebooks, mail, office, epub, tesseract, pdf, readers.
"""
