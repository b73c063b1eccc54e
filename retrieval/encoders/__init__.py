"""Encoders: texts in, vectors out.

`base` says what an encoder is, `transformer` is one and `static` another; the rest is what they are
made of, `opened` chooses between them and `distillation` makes the second of the first.
Files import only what is above them: base, adapters, cache, folder_checks, tokens, sbert_wk,
pooling, hub, sentence_folder, openvino_runtime, torch_runtime, transformer, word_weights,
word_vector_files, word_vector_cache, word_pieces, static_folder, static, opened, distillation.
"""
