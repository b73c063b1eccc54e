"""Commands about documents: they come, are kept up to date, found, shown and deleted.

Files import only what is above them: demo, build, add, delete, sync, search, open_document.
"""
