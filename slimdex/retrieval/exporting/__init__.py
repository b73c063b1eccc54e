"""Export of an index's rows, or of its encoder and reducer, in formats of other programs.

`export` dispatches to the formats, one file each.
"""
