"""The HTTP service: searches of indexes by programs, people and agents, and concurrent changes.

`access` says who may call, `middleware` checks requests, `app` assembles the routes;
`served_index` answers.
"""
