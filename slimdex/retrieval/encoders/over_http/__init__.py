"""Encoders that run in a server, asked over HTTP.

`http_encoder` is the encoder, `apis` has the forms of requests and answers, and `connection` sends
JSON to a server.
"""
