"""Remote: an index of a service, with the interface of a collection.

Files import only what is above them: remote_collection.
"""
