"""Formats: the text and parts of a file, a module for each format."""
