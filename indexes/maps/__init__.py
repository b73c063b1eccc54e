"""Maps from one encoder's vectors to another's, fitted on texts that both encoded.

Files import only what is above them: affine_map, fitting.
"""
