"""The HTTP service: searches of indexes by programs, people and agents, and concurrent changes.

`running` listens, `middleware` checks requests, `app` assembles the routes; `served_index` answers.
Files and folders import only what is above them: limits, batching, conditional, metrics,
served_index, root_folder, service, access, routes, mcp_tools, freshness, app, running.
"""
