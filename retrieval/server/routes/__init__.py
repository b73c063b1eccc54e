"""Routes: requests, their bodies and their answers.

Files import only what is above them: bodies, openai_filters, failures, bulk, json_requests, search,
change, upload, root, openai, status, page.
"""
