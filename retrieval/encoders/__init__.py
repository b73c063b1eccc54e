"""Encoders: texts in, vectors out.

`base` says what an encoder is, `transformer` is one and `word_vectors` has another; the rest is
what they are made of, `opened` chooses between them, `distillation` makes the second of the first.
Files import only what is above them: openvino_library, base, adapters, cache, folder_checks,
tokens, sbert_wk, pooling, hub, sentence_folder, processor, streams, openvino_runtime,
precision_choice, torch_runtime, transformer, word_vectors, opened, distillation.
"""
