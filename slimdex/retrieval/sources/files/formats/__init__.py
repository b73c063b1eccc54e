"""Formats: the text and parts of a file; `readers` chooses the module by the file's kind."""
