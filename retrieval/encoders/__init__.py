"""Encoders: texts in, vectors out.

`base` defines the protocol; `transformer`, `word_vectors` and `over_http` implement it; `opening`
chooses between them; `distillation` turns a transformer into word vectors. The other files are
their parts.
Files and folders import only what is above them: base, given_encoder, adapters, choice,
folder_checks,
tokens, sbert_wk, pooling, hub, sentence_folder, runtimes, transformer, word_vectors, over_http,
opening, distillation.
"""
