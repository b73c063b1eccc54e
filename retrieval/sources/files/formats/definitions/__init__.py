"""Definitions: where the functions and classes of source code begin and end.

Files import only what is above them: definition, by_keywords, by_grammar.
"""
