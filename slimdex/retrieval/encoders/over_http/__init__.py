"""Encoders that run in a server, asked over HTTP.

`connection` sends JSON and retries, `apis` knows the forms of requests and answers, `address` names
servers and finds their keys, and `http_encoder` is the encoder.
"""
