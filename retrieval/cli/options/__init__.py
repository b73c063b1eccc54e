"""Options of commands, each declared once: a field of a dataclass, or a type of its own.

Files import only what is above them: sizes, default_index, click_commands, opening, sources,
encoding, settings, quality, searching, milvus.
"""
