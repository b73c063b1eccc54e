"""Encoders: texts in, vectors out.

`base` defines the protocol; `transformer` and `word_vectors` implement it; `opened` chooses between
them; `distillation` turns a transformer into word vectors. The other files are their parts.
Files and folders import only what is above them: base, given_encoder, adapters, folder_checks,
tokens, sbert_wk, pooling, hub, sentence_folder, runtimes, transformer, word_vectors, opening,
distillation.
"""
