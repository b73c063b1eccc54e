"""The HTTP service: searches of indexes by programs, people and agents, and concurrent changes.

`running` listens, `gate` checks requests, `app` assembles the routes; `served_index` answers.
Files import only what is above them: limits, batching, conditional, metrics, tokens,
hosts, bodies, openai_filters, served_index, service, failures, gate, bulk, json_requests,
routes_search, routes_change, routes_openai, routes_status, routes_page, agents, app, owner,
connections, running.
"""
