"""Experiments on both packages, imported by neither.

Files import only files above them: datasets, vectors, machine, engines, peers, methods, worker,
quality, results, grid, retrieval, versus, findings, charts, tables, report, __main__.
"""
