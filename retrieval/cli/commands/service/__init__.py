"""Commands that make an index available to other programs and services.

Files import only what is above them: push, serve, mcp, export, distill.
"""
