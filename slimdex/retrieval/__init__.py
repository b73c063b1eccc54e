"""Documents: text in, hits out.

Users import `collection`; the other modules do its work.
"""
