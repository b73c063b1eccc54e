"""Documents: text in, hits out.

Users import `collection`; the other modules do its work.
"""

if __name__ != "slimdex.retrieval":
    raise ImportError("retrieval is a folder of slimdex: import slimdex.retrieval")
