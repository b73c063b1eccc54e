"""Word vectors from files and folders, pooled into text vectors by `StaticEncoder`.

Files import only what is above them: weights, files, parsed_files, pieces, folder, static_encoder.
"""
