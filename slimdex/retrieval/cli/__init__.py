"""The command line: `slimdex`, its commands, their options, and what it prints.

`app` lists the commands; heavy modules are imported by the commands that need them.
"""
