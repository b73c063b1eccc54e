"""Export of an index's rows, or of its encoder and reducer, in formats of other programs.

`export` dispatches to the formats, one file each.
Files import only what is above them: selection, npz_file, parquet_file, text_rows, faiss_folder,
reduced_model, static_parts, sentence_transformers_folder, onnx_networks, onnx_folder,
export.
"""
