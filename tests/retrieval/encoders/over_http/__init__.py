"""Encoders over HTTP, against real servers and a proxy that injects faults."""
