"""Options of commands, each declared once: a field of a dataclass, or a type of its own."""
