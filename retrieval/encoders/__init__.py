"""Encoders: texts in, vectors out.

`base` defines the protocol; `transformer` and `word_vectors` implement it; `opened` chooses between
them; `distillation` turns a transformer into word vectors. The other files are their parts.
Files import only what is above them: openvino_library, base, adapters, cache, folder_checks,
tokens, sbert_wk, pooling, hub, sentence_folder, processor, streams, openvino_runtime,
precision_choice, torch_runtime, network_loader, transformer, word_vectors, opened, distillation.
"""
