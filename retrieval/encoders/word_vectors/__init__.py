"""Word vectors: of files, of folders, and pooled to vectors of texts by a `StaticEncoder`.

Files import only what is above them: weights, files, parsed_files, pieces, folder, static_encoder.
"""
