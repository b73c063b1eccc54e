"""Commands that make an index available to other programs, machines and agents.

Files import only what is above them: export, map, push, serve, mcp.
"""
