"""Words: which documents have a query's words (BM25), and how that is fused with meaning.

Files import only what is above them: tokens, segment_folder, word_index, fusion.
"""
