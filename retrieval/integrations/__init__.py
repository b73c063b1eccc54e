"""Integrations: slimdex as a document store of other libraries.

Files import only what is above them: metadata, langchain_store, llama_index_store, haystack_store,
mteb_records, mteb_index, mteb_search, mteb_tasks.
"""
