"""Commands that give an index to other programs and services.

Files import only what is above them: push, serve, mcp, export, distill.
"""
