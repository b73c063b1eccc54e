"""Experiments on both packages, imported by neither.

Files and folders import only what is above them: extras, machine, page_cache, memory_limit,
columns, rows, options, data, engines, experiments, planning, reporting, runner, commands, cli,
__main__.
"""
