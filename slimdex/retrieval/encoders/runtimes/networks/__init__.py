"""Networks of the BERT family, with pooling and head, that need no torch.

`built` makes them from weights; the other files are their parts.
"""
