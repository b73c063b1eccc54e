"""The HTTP service: searches of indexes by programs, people and agents, and concurrent changes.

`running` listens, `middleware` checks requests, `app` assembles the routes; `served_index` answers.
"""
