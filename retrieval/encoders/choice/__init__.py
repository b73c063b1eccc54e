"""Choice of an encoder: well-known models, and the languages of texts.

Files import only what is above them: known_models, languages.
"""
