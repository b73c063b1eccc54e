"""Access: who may ask, how often and how much at once.

Files import only what is above them: tokens, hosts, middleware, connections.
"""
