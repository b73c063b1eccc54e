"""Experiments on both packages, imported by neither.

Files and folders import only what is above them: machine, page_cache, memory_limit, columns, rows,
options, data, engines, experiments, inverted, starting, updating, planning, reporting, runner,
code, migration, commands, cli, __main__.
"""

if __name__ != "slimdex.bench":
    raise ImportError("bench is a folder of slimdex: import slimdex.bench")
