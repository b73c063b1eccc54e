"""Networks of a model's folder that need no torch, with pooling and head.

`built` makes them from weights, `exported` reads ready-made ones; the other files are their parts.
"""
