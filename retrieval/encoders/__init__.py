"""Encoders: texts in, vectors out.

`base` says what an encoder is, `transformer` is one; the rest is what that one is made of.
Files import only what is above them: base, adapters, cache, folder_checks, tokens, sbert_wk,
pooling, hub, sentence_folder, openvino_runtime, torch_runtime, transformer.
"""
