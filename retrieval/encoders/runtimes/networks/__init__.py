"""Networks built from a model's folder with OpenVINO's operations, without torch.

`built` puts the other files together. Files import only what is above them: weights,
architectures, operations, hidden_states, sentence_vectors, first_texts, folder_tokenizer, built.
"""
