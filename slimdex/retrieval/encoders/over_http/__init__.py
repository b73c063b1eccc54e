"""Encoders that run in a server, asked over HTTP.

`http_encoder` is the encoder, and `connection` sends JSON to a server.
"""
