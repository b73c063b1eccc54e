"""Networks of a model's folder that need no torch, with pooling and head.

`built` makes them from weights, `exported` reads ready-made ones; the other files are their parts.
Files import only what is above them: weights, architectures, operations, hidden_states,
sentence_vectors, first_texts, folder_tokenizer, built, exported.
"""
