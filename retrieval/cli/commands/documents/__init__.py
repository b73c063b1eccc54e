"""Commands about documents: add, update, find, show and delete them.

Files import only what is above them: demo, build, add, delete, dedup, sync, search, related,
open_document.
"""
