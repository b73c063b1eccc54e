"""Definitions: where the functions and classes of source code begin and end."""
