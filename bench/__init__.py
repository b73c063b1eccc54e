"""Experiments on both packages, imported by neither.

Files import only files above them: datasets, vectors, machine, processes, engines, peers, methods,
worker, quality, results, grid, retrieval, versus, sts, encoding, findings, charts, tables,
readme, report, __main__.
"""
