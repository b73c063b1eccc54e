"""Encoders: texts in, vectors out.

`base` defines the protocol; `transformer`, `word_vectors` and `over_http` implement it; `opening`
chooses between them; `distillation` turns a transformer into word vectors. The other files are
their parts.
"""
