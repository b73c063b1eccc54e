"""Exporting: an index's rows, or its encoder with its reducer, in formats that others read.

`export` chooses between the formats, each of which has a file.
Files import only what is above them: libraries, selection, npz_file, parquet_file,
text_rows, faiss_folder, reduced_model, static_parts, sentence_transformers_folder,
onnx_networks, onnx_folder, export.
"""
