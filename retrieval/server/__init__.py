"""The service: indexes that programs, people and agents ask over HTTP, while others write.

`running` listens, `gate` looks at who comes, `app` puts the routes together; `served_index` is
what they ask.
Files import only what is above them: limits, batching, conditional, metrics, tokens, hosts, bodies,
openai_filters, served_index, service, failures, gate, bulk, json_requests, routes_search,
routes_change, routes_openai, routes_status, routes_page, agents, app, owner, connections, running.
"""
