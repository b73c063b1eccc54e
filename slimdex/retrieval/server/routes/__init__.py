"""Routes: requests, their bodies and their answers."""
